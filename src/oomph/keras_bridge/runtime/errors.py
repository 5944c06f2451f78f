"""Translates TensorFlow's exceptions into oomph's values. No other code in the process relies on their wording."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

# "OOM when allocating tensor with shape[8192,512] and type float on /job:.../device:GPU:0 by allocator GPU_0_bfc"
_BFC = re.compile(r"OOM when allocating tensor with shape ?\[([\d,]*)\] and type (\w+) on (\S+) by allocator (\S+)")
# "Out of memory while trying to allocate 1.02GiB. [tf-allocator-allocation-error='']" (XLA; older: "... N bytes")
_XLA = re.compile(r"[Oo]ut of memory while trying to allocate ([\d.]+) ?([KMGT]?i?B|bytes)")
_GPU = re.compile(r"/device:GPU:(\d+) by allocator")
# A host-to-device copy that found no memory (tensorflow/core/common_runtime/gpu/gpu_util.cc)
_COPY = "Dst tensor is not initialized"
_DEVICE = ("failed to allocate", "CUDA_ERROR_OUT_OF_MEMORY", "ran out of memory")
# A library failed to allocate, or XLA's autotuner found no kernel because none could allocate its buffers
_DISGUISES = ("CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "Autotuning failed for HLO")
# After one of these, every call to the device fails in this process (CUDA driver API, cudaError_enum, "Sticky errors")
_LOST = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "illegal-memory-access",
    "an illegal memory access was encountered": "illegal-memory-access",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "illegal-memory-access",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "illegal-memory-access",
    "CUDA_ERROR_LAUNCH_FAILED": "kernel-launch-failure",
    "unspecified launch failure": "kernel-launch-failure",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "kernel-launch-failure",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "kernel-launch-failure",
    "CUDA_ERROR_INVALID_PC": "kernel-launch-failure",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "kernel-launch-failure",
    "CUDA_ERROR_ASSERT": "kernel-launch-failure",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "kernel-launch-failure",
    "CUDA_ERROR_ECC_UNCORRECTABLE": "hardware-fault",
    "uncorrectable ECC error encountered": "hardware-fault",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": "hardware-fault",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "hardware-fault",
}
# What a worker's collective operations raise once another worker is lost
# (tensorflow/core/common_runtime/base_collective_executor.cc; coordination_service_agent.cc for heartbeats)
_WORKER_LOST = ("Collective ops is aborted by", "stopped sending heartbeats", "Collective has timed out")
# The same operations, if the workers train different models (collective_param_resolver_local.cc, CompleteInstanceLocal)
_DISAGREE = ("Shape mismatch in the collective instance", "Collective instance")
# tf.data passes on the class of an error in a pipeline function, but not its message
_INPUT = "Error in user-defined function passed to"
_UNITS = {"B": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


_handling = threading.local()
_blocks: set[object] = set()


@contextmanager
def handled() -> Iterator[None]:
    """Within the block, mark that oomph itself handles out-of-memory errors and training steps in this thread.

    This includes the threads in which a strategy runs its replicas (`_MirroredReplicaThread` in
    tensorflow/python/distribute/mirrored_run.py).
    """
    depth, block = getattr(_handling, "depth", 0), object()
    _handling.depth = depth + 1
    _blocks.add(block)
    try:
        yield
    finally:
        _handling.depth = depth
        _blocks.discard(block)


def being_handled() -> bool:
    """True if this thread is in a `handled` block, or runs a replica for a thread that is."""
    if getattr(_handling, "depth", 0):
        return True
    return bool(_blocks) and type(threading.current_thread()).__name__ in TENSORFLOW.replica_thread.names


@dataclass(frozen=True)
class DeviceOutOfMemory:
    """One out-of-memory error on a device: its line in the message, and the amount of memory requested."""

    line: str
    requested_bytes: int | None
    whole_step: bool
    """True if the amount is for the whole compiled step (XLA) rather than for one tensor."""
    disguised: bool = False
    """True if the message describes a different problem, which is an OOM only if the allocator was nearly full."""

    @property
    def gpu(self) -> str | None:
        """The GPU that ran out of memory, such as "GPU:1", or None if the line does not name one."""
        match = _GPU.search(self.line)
        return None if match is None else f"GPU:{match[1]}"


def as_out_of_memory(error: BaseException) -> DeviceOutOfMemory | None:
    """Interpret this exception as an out-of-memory error; return None if it is something else."""
    if not isinstance(error, tf.errors.OpError):
        return None
    text = str(error.message)
    if isinstance(error, tf.errors.ResourceExhaustedError):
        if match := _BFC.search(text):
            return DeviceOutOfMemory(_line(text, match.start()), _tensor_bytes(match[1], match[2]), whole_step=False)
        if match := _XLA.search(text):
            return DeviceOutOfMemory(_line(text, match.start()), _quantity(match[1], match[2]), whole_step=True)
        for marker in _DEVICE:
            if marker in text:
                return DeviceOutOfMemory(_line(text, text.index(marker)), None, whole_step=False)
        if _INPUT in text:
            return DeviceOutOfMemory(_line(text, text.index(_INPUT)), None, whole_step=False, disguised=True)
    if isinstance(error, tf.errors.InternalError) and _COPY in text:
        return DeviceOutOfMemory(_line(text, text.index(_COPY)), None, whole_step=False)
    for marker in _DISGUISES:
        if marker in text:
            return DeviceOutOfMemory(_line(text, text.index(marker)), None, whole_step=False, disguised=True)
    return None


def was_interrupted(error: BaseException) -> bool:
    """True if Ctrl-C caused an error: native code that is interrupted may raise a SystemError."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, KeyboardInterrupt):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False


def outcome_of(error: BaseException) -> str:
    """Describe the outcome of a call that raised an error."""
    return "was interrupted (Ctrl-C)" if was_interrupted(error) else f"raised {type(error).__name__}"


def lost_context(error: BaseException) -> str:
    """Return the fault that destroyed this process's GPU context, or an empty string for other errors."""
    if not isinstance(error, (tf.errors.OpError, RuntimeError)):
        return ""
    text = str(getattr(error, "message", error))
    return next((fault for marker, fault in _LOST.items() if marker in text), "")


def lost_worker(error: BaseException) -> bool:
    """True if another worker of the same training has ended or is silent; collective operations fail from then on."""
    if not isinstance(error, tf.errors.OpError):
        return False
    text = str(error.message)
    return any(marker in text for marker in _WORKER_LOST) and not any(marker in text for marker in _DISAGREE)


def _line(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:400]


def _tensor_bytes(shape: str, dtype_name: str) -> int | None:
    dtype: Any = {"float": tf.float32, "double": tf.float64, "half": tf.float16}.get(dtype_name)
    try:
        dtype = dtype or tf.as_dtype(dtype_name)
    except TypeError:
        return None
    total = int(dtype.size)
    for size in shape.split(","):
        total *= int(size or 1)
    return total


def _quantity(number: str, unit: str) -> int | None:
    factor = _UNITS.get(unit)
    return None if factor is None else int(float(number) * factor)
