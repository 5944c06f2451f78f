"""The environment in which TensorFlow counts its memory on the CPU as it does on a GPU."""

from __future__ import annotations

import psutil

from oomph.planning.gpu_costs import GROWTH
from oomph.process.available_memory import limit_bytes

_SHARE = 0.9
_LEAST = 1 << 30


def counting_environ(is_gpu_idle: bool = False) -> dict[str, str]:
    """The environment variables that make TensorFlow count its memory in the script's process.

    On the CPU, TensorFlow allocates as on a GPU, up to most of the machine's free memory: a model that needs more gets
    an error with a message, and the kernel need not kill a process. The kernels are those that the simulation knows. A
    GPU's memory is taken only as needed, so that another training on it keeps its own. An idle GPU's memory is taken as
    the script itself would take it, since TensorFlow divides memory less well if it takes it bit by bit.
    """
    growth = {} if is_gpu_idle else {GROWTH: "true"}
    return {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(max(_LEAST, round(_SHARE * _free())) >> 20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        **growth,
    }


def _free() -> int:
    """The bytes of memory free on the machine, page cache included, but no more than the limit of our container."""
    known = (psutil.virtual_memory().available, limit_bytes())
    return min(amount for amount in known if amount is not None)
