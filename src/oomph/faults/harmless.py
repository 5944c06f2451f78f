"""What TensorFlow writes, even as an error, on machines and in trainings that are well."""

from __future__ import annotations

# Parts of TensorFlow that do without what they tried: graphs are then not optimised, kernels not timed exactly.
GETS_BY = (
    *("meta_optimizer.cc", "root_dataset.cc", "cuda_timer.cc", "remapper.cc"),
    "(this does not indicate an error",
)
AT_START = ("Attempting to register factory", "cuInit", "Nvml call failed", "NUMA node")
AT_END = ("OUT_OF_RANGE", "CANCELLED", "ABORTED: Shutdown")
"""Statuses: the end of a data set, a cancelled sibling, a shutdown."""
