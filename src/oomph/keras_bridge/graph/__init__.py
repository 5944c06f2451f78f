"""Analysis of traced functions: what they write, depend on and contain."""
