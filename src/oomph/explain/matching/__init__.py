"""Matches evidence to faults: by signatures first, then by the last error, then by the words. Pure."""
