"""Turns logs, run directories, heap dumps and the kernel log into evidence: the impure part of `explain`."""
