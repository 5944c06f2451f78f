"""The device of a plan: named, given by its memory, or this machine's GPU; the environment for counting its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oomph.errors import UsageError
from oomph.gpu.question import installed
from oomph.planning.gpu_costs import GROWTH
from oomph.planning.gpu_list import capability_of, find_gpu, size_of
from oomph.process.available_memory import limit_bytes
from oomph.terminal.amounts import in_three_digits

Say = Callable[[str], None]
_SHARE = 0.9
_LEAST = 1 << 30


def device_of(wanted: str | None, environ: Mapping[str, str], say: Say) -> dict[str, Any] | None:
    """Return the device of a plan, as JSON; None if none is named and this machine has none.

    It has a `name`, its `memory` in bytes, its `capability` ("8.9"; empty if unknown), and for a bare amount of
    memory also `is_card`, which is False.

    Args:
        wanted: the value of --gpu; None for this machine's GPU, if any.
        environ: the environment of the script.
        say: called with remarks on the choice.

    Raises UsageError for an unknown GPU, and for "auto" without one.
    """
    if wanted is not None and wanted.lower() != "auto":
        size = size_of(wanted)
        if size is not None:
            return _device(f"a GPU with {in_three_digits(size)}", size) | {"is_card": False}
        gpu = find_gpu(wanted)
        if gpu.note or gpu.shared or gpu.ecc:
            say(f"{gpu.shown}{f': {gpu.note}' if gpu.note else ''}")
        return _device(gpu.name, gpu.memory_bytes, gpu.capability)
    found, problem = installed(environ)
    if not found:
        if wanted is None:
            return None
        why = f" ({problem})" if problem else ""
        raise UsageError(f"--gpu auto finds no NVIDIA GPU here{why}: name one, or give its memory, such as 24GiB")
    first = found[0]
    if any(gpu.total_bytes != first.total_bytes for gpu in found):
        say(f"the GPUs here differ: planning for the first, {first.name}")
    return _device(first.name, first.total_bytes, capability_of(first.name))


def pool_of(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return TensorFlow's memory pool on the CPU as a device; None if the pool has no limit, or if a GPU is used."""
    limit = environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", "")
    is_used = environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    hidden = environ.get("CUDA_VISIBLE_DEVICES") in ("-1", "")
    if not (is_used and hidden and limit.isdecimal() and int(limit)):
        return None
    return _device("the CPU's memory pool", int(limit) << 20) | {"is_card": False, "is_gpu": False}


def _device(name: str, memory: int, capability: str = "") -> dict[str, Any]:
    return {"name": name, "memory": memory, "capability": capability}


def counting_environ(is_gpu_idle: bool = False) -> dict[str, str]:
    """Return the environment variables that make TensorFlow count its memory in the script's process.

    On the CPU, TensorFlow allocates as on a GPU, up to most of the machine's free memory: a model that needs more gets
    an error with a message, and the kernel need not kill a process. The kernels are those that the simulation knows.
    TensorFlow takes a GPU's memory only as needed, so that another training on it keeps its own. It takes an idle GPU's
    memory as the script itself would, since it divides memory less well when taking it bit by bit.
    """
    growth = {} if is_gpu_idle else {GROWTH: "true"}
    return {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(max(_LEAST, round(_SHARE * _free())) >> 20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        **growth,
    }


def _free() -> int:
    """Return the free memory of the machine in bytes, page cache included, but at most the limit of our container."""
    import psutil

    known = (psutil.virtual_memory().available, limit_bytes())
    return min(amount for amount in known if amount is not None)
