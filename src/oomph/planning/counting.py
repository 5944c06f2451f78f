"""The environment in which TensorFlow counts its memory on the CPU as it does on a GPU."""

from __future__ import annotations

import psutil

from oomph.planning.gpu_costs import GROWTH
from oomph.process.available_memory import limit_bytes

_SHARE = 0.9
_LEAST = 1 << 30


def counting_environ(is_gpu_idle: bool = False) -> dict[str, str]:
    """Variables for the script's process.

    The CPU's memory comes from the allocator that GPUs use, up to most of what the machine has free: a model that needs
    more is an error with a message, and the kernel need not kill it or another process. Kernels are those that the
    simulation knows; a GPU's memory is taken as it is needed, so that a training beside it keeps its own. An idle GPU's
    is taken as the script itself would: what TensorFlow takes bit by bit it divides less well.
    """
    growth = {} if is_gpu_idle else {GROWTH: "true"}
    return {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(max(_LEAST, round(_SHARE * _free())) >> 20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        **growth,
    }


def _free() -> int:
    """The bytes free on the machine, within the limit of our container; its page cache counts as free."""
    known = (psutil.virtual_memory().available, limit_bytes())
    return min(amount for amount in known if amount is not None)
