"""The allocator of the device that is fullest, as TensorFlow reports it."""

from __future__ import annotations

import tensorflow as tf

from oomph.keras_bridge.runtime.allocator import DeviceMemory


class FullestDevice:
    """Reads the allocators of all GPUs; without one that of the CPU, where it reports anything."""

    def __init__(self) -> None:
        gpus = [gpu.name.rpartition("device:")[2] for gpu in tf.config.list_logical_devices("GPU")]
        self._devices = [DeviceMemory.of_training_device(gpu) for gpu in gpus]
        self._devices = self._devices or [DeviceMemory.of_training_device()]

    def in_use_bytes(self) -> int | None:
        """The bytes in use on the device that has most of them in use."""
        return max((device.in_use_bytes() or 0 for device in self._devices), default=0) or None

    def values(self) -> dict[str, float | None]:
        """The metrics of the fullest device."""
        fullest = max(self._devices, key=lambda device: device.in_use_bytes() or 0)
        return {
            "allocator_in_use_bytes": fullest.in_use_bytes(),
            "allocator_peak_bytes": fullest.peak_bytes(),
            "allocator_limit_bytes": fullest.limit_bytes,
        }
