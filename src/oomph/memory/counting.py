"""The environment in which TensorFlow counts its memory on the CPU as it does on a GPU."""

from __future__ import annotations

import psutil


def counting_environ() -> dict[str, str]:
    """Variables for the script's process.

    The CPU's memory comes from the allocator that GPUs use, up to all that the machine has; kernels are those that the
    simulation knows; a GPU's memory is taken as it is needed, so that a training beside it keeps its own.
    """
    return {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(psutil.virtual_memory().total >> 20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
