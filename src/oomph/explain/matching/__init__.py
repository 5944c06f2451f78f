"""Names faults from evidence: signatures first, then the last error, then the words. Pure."""
