"""Reads logs, run directories, heap dumps and the kernel log into evidence: the effects of `explain`."""
