"""Everything that touches libcuda and NVML.

A driver call can hang, crash or leave state behind, so each is made in a small process of its own (`ask_*.py`), which
prints what it learns line by line: what it had said before it died is kept.
"""
