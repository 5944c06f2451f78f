"""Stops a script at one of its trainings, in the script's process, and has the training examined there."""
