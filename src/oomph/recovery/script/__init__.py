"""The part of recovery that runs inside the script's process. Standard library only."""
