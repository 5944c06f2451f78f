"""Everything that touches libcuda and NVML, in processes that may hang, crash or leave state behind.

`oomph doctor` and `oomph run` query once, in a small separate process for each question (`ask_*.py`). The process
prints its answers line by line; if it dies, anything it has printed is kept. The monitor's sampler queries every
second, in a thread of its own process (`gpus.py`).
"""
