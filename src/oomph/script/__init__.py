"""The part of recovery that runs in the script process. Standard library only."""
