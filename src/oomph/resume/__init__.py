"""Resuming: what of a running training is saved and restored, and how the result is proved. In the script's process."""
