"""Reads TensorFlow's allocator of the training device: limit, bytes in use, peak."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NoReturn

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_NEARLY_FULL = 0.7
_TOO_MUCH = 1 << 46
"""The bytes to request in a test: more than an address space, so that every allocator refuses."""


@dataclass(frozen=True)
class DeviceMemory:
    """The allocator of one device. Readings are in bytes; None if TensorFlow does not report them."""

    device: str
    limit_bytes: int | None

    @classmethod
    def of_training_device(cls, gpu: str | None = None) -> DeviceMemory:
        """The allocator of the first GPU that TensorFlow uses, or else of the CPU, which has a limit only if set.

        Args:
            gpu: the name of another GPU, such as "GPU:1".
        """
        if gpu is not None:
            return cls(gpu, _listed_limit_bytes(gpu))
        for kind in ("GPU", "CPU"):
            if tf.config.list_logical_devices(kind):
                return cls(f"{kind}:0", _limit_bytes(kind))
        return cls("CPU:0", None)

    def in_use_bytes(self) -> int | None:
        """The bytes in use now."""
        return self._reading("current")

    def peak_bytes(self) -> int | None:
        """The most bytes in use since the last `reset_peak`."""
        return self._reading("peak")

    def reset_peak(self) -> None:
        """Start a new measurement of the peak."""
        try:
            tf.config.experimental.reset_memory_stats(self.device)
        except (ValueError, tf.errors.OpError):
            pass  # an allocator without statistics

    def was_nearly_full(self) -> bool:
        """True if most of the limit has been in use since the last `reset_peak`: evidence of a disguised OOM."""
        peak = self.peak_bytes()
        return bool(peak and self.limit_bytes and peak >= _NEARLY_FULL * self.limit_bytes)

    def _reading(self, which: str) -> int | None:
        try:
            value = int(tf.config.experimental.get_memory_info(self.device)[which])
        except (ValueError, KeyError, tf.errors.OpError):
            return None
        return value or None


def peak_bytes_of_device() -> int | None:
    """The peak in bytes of the training device; None for a CPU without a limit, which has no memory of its own."""
    memory = DeviceMemory.of_training_device()
    return memory.peak_bytes() if memory.device.startswith("GPU") or memory.limit_bytes else None


def _limit_bytes(kind: str) -> int | None:
    if kind == "CPU":
        megabytes = os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB")
        if os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true") and megabytes:
            return int(megabytes) << 20
        return None
    return _listed_limit_bytes(f"{kind}:0")


def _listed_limit_bytes(device: str) -> int | None:
    """The `memory_limit` of a device in TensorFlow's device list (C API: TF_DeviceListMemoryBytes)."""
    try:
        session = TENSORFLOW.session_library.value()
        devices = TENSORFLOW.list_devices.value()(TENSORFLOW.context_handle.of(TENSORFLOW.context.value()()))
        for index in range(session.TF_DeviceListCount(devices)):
            if session.TF_DeviceListName(devices, index).endswith(f"device:{device}"):
                return int(session.TF_DeviceListMemoryBytes(devices, index)) or None
    except (ImportError, AttributeError, tf.errors.OpError):
        pass  # a private interface: without it, the peak at the failure stands in for the limit
    return None


def run_out_of_memory(*_: Any) -> NoReturn:
    """Request an impossible amount of memory, for a test: the error is TensorFlow's."""
    tf.zeros([_TOO_MUCH // 8], tf.float64)
    raise AssertionError("an allocator has granted 64 TiB")
