"""The comparison of two results, in its own process, as it needs NumPy."""
