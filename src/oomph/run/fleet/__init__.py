"""Compares the machines of many runs: which faults occurred on which hosts and GPUs, and whether one stands out."""
