"""What the driver reports of its GPUs by itself: Xid errors, double-bit memory errors, unavailable GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from oomph.gpu.nvml_device import Device
from oomph.gpu.reading import Event

_XID = 0x8
_KINDS = {_XID: "xid", 0x2: "ecc-double-bit", 0x4000: "unavailable"}
"""By nvmlEventType*."""
_MOST = 64
"""Events that are taken at one look: a GPU that reports without end must not keep the thread."""


class Events:
    """The events of some GPUs since this was created. A GPU or driver without events has none."""

    def __init__(self, nvml: Any, devices: Iterable[Device]) -> None:
        self._nvml = nvml
        self._uuids: dict[int, str] = {}
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return
        for device in devices:
            try:
                wanted = nvml.nvmlDeviceGetSupportedEventTypes(device.handle) & sum(_KINDS)
                if wanted:
                    nvml.nvmlDeviceRegisterEvents(device.handle, wanted, self._set)
                    self._uuids[_address(device.handle)] = device.uuid
            except nvml.NVMLError:
                pass  # this GPU has none, such as a MIG instance

    def new(self) -> dict[str, tuple[Event, ...]]:
        """The events since the last call, by the UUID of their GPU. Does not wait."""
        found: dict[str, tuple[Event, ...]] = {}
        for _ in range(_MOST if self._uuids else 0):
            try:
                data = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError:
                break  # nothing more, or a GPU is lost, which its queries tell
            uuid = self._uuids.get(_address(data.device), "")
            event = Event(_KINDS.get(data.eventType, "unknown"), data.eventData if data.eventType == _XID else 0)
            found[uuid] = (*found.get(uuid, ()), event)
        return found


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
