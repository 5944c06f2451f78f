"""Stops a script at one of its training calls, in the script's process, and has it examined there."""
