"""Wrappers around the kernel's processes, descriptors and signals. Knows nothing of runs."""
