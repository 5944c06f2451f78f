"""Estimates GPU memory beyond a step's tensors, and the memory that TensorFlow leaves to other programs.

Sources: the reserve was measured with TensorFlow 2.21 on a fake driver, by compute capability, and matches
`MinSystemMemory` in tensorflow/core/common_runtime/gpu/gpu_device.cc; `TF_CUDNN_WORKSPACE_LIMIT_IN_MB` limits cuDNN's
workspace. This project has not measured the context or the workspaces on a real GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.planning.plan import Device, Interval, Item

MIB = 1 << 20
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
"""The environment variable that makes TensorFlow claim a GPU's memory only as needed."""
_RESERVES = ((5.2, 500), (7.5, 1050), (8.6, 1536), (9.0, 1800))
"""The memory left free, in MiB, on GPUs up to each compute capability; the last pair also applies to newer GPUs."""
_SMALL_CARD, _SMALL_RESERVE = 2048 * MIB, 512 * MIB
CONTEXT = Interval(300 * MIB, 450 * MIB, 600 * MIB)
"""The memory used by the CUDA context and its kernels, outside TensorFlow's allocator."""
_CUBLAS = Interval(8 * MIB, 32 * MIB, 64 * MIB)
_CUDNN = Interval(0, 64 * MIB, 512 * MIB)


def reserve(memory: int, capability: str) -> int:
    """Return the number of bytes that TensorFlow leaves free on a GPU of this memory and compute capability ("8.9")."""
    if memory <= _SMALL_CARD:
        return _SMALL_RESERVE
    try:
        number = float(capability)
    except ValueError:
        return _RESERVES[-1][1] * MIB
    return next((size for most, size in _RESERVES if number <= most), _RESERVES[-1][1]) * MIB


def usable(memory: int, capability: str, is_card: bool) -> int:
    """Return how many bytes of a card's memory TensorFlow's allocator can use; all of them for a bare amount."""
    return max(0, memory - CONTEXT.high - reserve(memory, capability)) if is_card else memory


def workspaces(convolves: bool) -> tuple[Item, ...]:
    """Return the workspaces that libraries request from TensorFlow's allocator on a GPU."""
    cublas = Item("cuBLAS workspace", _CUBLAS, "assumed", "32 MiB in a program that XLA compiled for an H100")
    if not convolves:
        return (cublas,)
    cudnn = Item("cuDNN workspace", _CUDNN, "assumed", "depends on the algorithms that cuDNN chooses")
    return cublas, cudnn


def nccl_buffers() -> Item:
    """Return the memory that NCCL uses on each GPU to sum gradients.

    NCCL requests it from the driver, usually out of the memory that TensorFlow's allocator leaves free.
    """
    return Item(
        "NCCL buffers", Interval(0, 0, 688 * MIB), "assumed",
        "outside TensorFlow's allocator; 544 MiB for two and 688 MiB for more A100s with NVLink in NVIDIA/nccl#964",
    )  # fmt: skip


def xla_workspaces(convolution: int) -> tuple[Item, ...]:
    """Return the workspaces that libraries need beyond XLA's own buffers, which already include cuBLAS's workspace.

    XLA chooses cuDNN's algorithms, and learns how much workspace they need, only once it has access to the device. The
    usual algorithms keep at most a convolution's inputs and outputs in different layouts.

    Args:
        convolution: the number of bytes that the largest convolution reads and writes; 0 if there is none.
    """
    cublas = Item("cuBLAS workspace", Interval(0, 0, _CUBLAS.high), "assumed", "XLA assigns most of it itself")
    if not convolution:
        return (cublas,)
    size = Interval(_CUDNN.low, _CUDNN.expected, max(_CUDNN.high, convolution))
    return cublas, Item("cuDNN workspace", size, "assumed", "depends on the algorithms that XLA tries on the device")


def limit_of(asked: Mapping[str, Any] | None) -> Device | None:
    """Return the device described by a request: `name`, `memory` in bytes, `capability`, `is_card` and `is_gpu`."""
    if asked is None:
        return None
    memory, is_card = int(asked["memory"]), bool(asked.get("is_card", True))
    capability = str(asked.get("capability", ""))
    limit = usable(memory, capability, is_card)
    return Device(asked["name"], memory, limit, is_card, bool(asked.get("is_gpu", True)), capability)
