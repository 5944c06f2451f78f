"""Recovery code that runs in the script process. Standard library only."""
