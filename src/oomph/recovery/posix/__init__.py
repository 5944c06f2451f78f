"""Processes, descriptors and signals as the kernel has them. Knows nothing of runs."""
