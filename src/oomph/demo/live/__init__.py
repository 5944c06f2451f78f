"""Compares two results in a separate process, since this needs NumPy."""
