"""Compares two results, in a separate process because it needs NumPy."""
