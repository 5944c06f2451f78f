"""Everything that touches libcuda and NVML, in child processes of `oomph doctor` and `oomph run`.

A driver call can hang, crash or leave state behind, so each runs in a small process of its own (`ask_*.py`), which
prints its answers line by line: what it printed before it died is kept.
"""
