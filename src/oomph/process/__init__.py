"""Wraps the kernel's processes, descriptors and signals. Independent of runs."""
