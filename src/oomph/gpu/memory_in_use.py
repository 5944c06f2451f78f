"""Asks NVML by ctypes how much memory of each GPU is in use. Runs in a forked child of the supervisor.

It needs no package, unlike `ask_nvml.py`: a run is supervised whether or not nvidia-ml-py is installed.
Source: NVIDIA, NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_TEXT_BYTES = 96


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML sees it."""

    index: int
    uuid: str
    bus: str
    """The PCI address, as in 00000000:3B:00.0."""
    used_bytes: int


class _Memory(ctypes.Structure):
    """NVML's structure nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Pci(ctypes.Structure):
    """NVML's structure nvmlPciInfo_t."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus_id", ctypes.c_char * 32),
    )


def memory_in_use() -> list[Gpu]:
    """Every GPU that answers; none without a driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    count = ctypes.c_uint()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    return [gpu for index in range(count.value) if (gpu := _gpu(nvml, index)) is not None]


def _gpu(nvml: ctypes.CDLL, index: int) -> Gpu | None:
    handle, memory, pci = ctypes.c_void_p(), _Memory(), _Pci()
    uuid = ctypes.create_string_buffer(_TEXT_BYTES)
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return None
    if nvml.nvmlDeviceGetUUID(handle, uuid, _TEXT_BYTES) or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
        return None
    bus = "" if nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci)) else pci.bus_id.decode()
    return Gpu(index, uuid.value.decode(), bus, memory.used)
