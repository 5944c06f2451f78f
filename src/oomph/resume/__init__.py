"""Saves and restores a running training, and proves the result. Runs in the script process."""
