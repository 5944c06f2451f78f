"""Copies a run directory to an object store, and back to another machine. Runs in a process of its own."""
