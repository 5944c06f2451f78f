"""Wrappers around processes, descriptors and signals of the kernel. Knows nothing of runs."""
