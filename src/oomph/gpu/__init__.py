"""Everything that touches libcuda and NVML, in processes that may hang, crash or keep state behind.

`oomph doctor` and `oomph run` query once, in a small process for each question (`ask_*.py`), which prints its answers
line by line; whatever it printed before it died is kept. The monitor's sampler queries every second, in a thread of its
process (`gpus.py`).
"""
