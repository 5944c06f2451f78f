"""Reads logs, run directories, heap dumps and the kernel's log into evidence: the effects of `faults`."""
