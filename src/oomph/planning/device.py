"""Determines the device to plan for: a named GPU, an amount of memory, or a local GPU. Sets up memory counting."""

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
    """Return the device to plan for, as JSON, or None if no device was requested and this machine has no GPU.

    The device has a `name`, its `memory` in bytes and its `capability` ("8.9"; empty if unknown). A bare amount of
    memory also has `is_card`, which is False.

    Args:
        wanted: the value of --gpu; None for this machine's GPU, if there is one.
        environ: the environment of the script.
        say: called with remarks about the choice.

    Raises UsageError for an unknown GPU, and for "auto" on a machine without one.
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
        raise UsageError(
            f"--gpu auto found no NVIDIA GPU here{why}: specify a GPU, or an amount of memory such as 24GiB"
        )
    first = found[0]
    if any(gpu.total_bytes != first.total_bytes for gpu in found):
        say(f"the GPUs here differ: planning for the first, {first.name}")
    return _device(first.name, first.total_bytes, capability_of(first.name))


def pool_of(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return TensorFlow's CPU memory pool as a device, or None if the pool has no limit or a GPU is used."""
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

    On the CPU, TensorFlow then allocates as on a GPU, up to most of the machine's free memory: a model that needs more
    gets an error message, and the kernel has no need to kill a process. The kernels used are the ones that the
    simulation knows. On a GPU, TensorFlow claims memory only as needed, so that other training on the same GPU keeps
    its memory. On an idle GPU, it claims memory as the script itself would, because it divides memory less efficiently
    when claiming it bit by bit.
    """
    growth = {} if is_gpu_idle else {GROWTH: "true"}
    return {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(max(_LEAST, round(_SHARE * _free())) >> 20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        **growth,
    }


def _free() -> int:
    """Return the machine's free memory in bytes, including the page cache, but at most our container's limit."""
    import psutil

    known = (psutil.virtual_memory().available, limit_bytes())
    return min(amount for amount in known if amount is not None)
