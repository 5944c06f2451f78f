"""oomph rehearse: injects faults into a script before real ones occur. Runs outside the script's process."""
