"""The comparison of two results, in a process of its own: it needs NumPy."""
