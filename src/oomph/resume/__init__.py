"""Saves and restores training in progress, and proves the result. Runs in the script process."""
