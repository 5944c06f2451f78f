"""`oomph.isolate`: runs a function in a process of its own. Runs in the caller's process and in the child."""
