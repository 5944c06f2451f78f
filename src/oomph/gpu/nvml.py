"""Nvml: queries the GPUs of this machine in process, through nvidia-ml-py. The sampler uses it in a separate thread.

A call may block for as long as the driver is stuck, and NVML does not work in a process forked after NVML was started.
For callers that query only once, `ask_nvml.py` does so in a child process instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from oomph.gpu.nvml_device import SLOW_SECONDS, ListedGpu
from oomph.gpu.reading import DriverEvent, Reading

_RETRY_SECONDS = 60.0
"""The time, in seconds, between retries after a failure or a lost GPU. Starting NVML may take seconds."""
_PROBLEMS = {
    4: "this user is not allowed to query the NVIDIA driver",
    9: "the NVIDIA driver is not loaded",
    12: "there is no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded",
    18: "the NVIDIA driver was updated, and the old one is still loaded until the machine restarts",
}
_NO_PERMISSION, _LIBRARY_NOT_FOUND = 4, 12


class Nvml:
    """Reads all GPUs that NVML reports to this process. The first `read` starts NVML."""

    def __init__(self) -> None:
        self.problem = ""
        """The reason why no GPU can be read; empty while GPUs can be read."""
        self.is_missing = False
        """True if NVML cannot be loaded here at all. `nvidia-smi` may still answer."""
        self.asking = ""
        """The name of the device being queried, such as "GPU 3", to report if the call does not return."""
        self._nvml: Any = None
        self._open_at = float("-inf")
        self._devices: list[ListedGpu] = []
        self._lost: dict[str, Reading] = {}
        self._events: Events | None = None

    def read(self, now: float) -> list[Reading]:
        """Read every GPU. `now` is a monotonic time in seconds. Empty if there are none, or if NVML does not start."""
        try:
            if now >= self._open_at and (self.problem or self._lost or self._nvml is None):
                self._open(now)
            return sorted(self._readings(now), key=lambda reading: reading.index)
        finally:
            self.asking = ""

    def close(self) -> None:
        """Shut down NVML."""
        if self._nvml is not None:
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                pass  # it was not started
        self._devices, self._events = [], None

    def _open(self, now: float) -> None:
        """Start or restart NVML. Only a restart can find a lost GPU again after it has been reset."""
        self.asking, self._open_at = "NVML", now + _RETRY_SECONDS
        self.close()
        self.problem = self._start()
        if self.problem:
            return
        try:
            self._devices = self._list(now)
        except self._nvml.NVMLError as error:
            self.problem = _in_words(error)
            return
        self._events = Events(self._nvml, self._devices)
        if not self._devices and not self._lost and not self.problem:
            self.problem = "the NVIDIA driver sees no GPU"

    def _start(self) -> str:
        try:
            import pynvml
        except ImportError:
            self.is_missing = True
            return "nvidia-ml-py is not installed alongside oomph"
        except Exception as error:
            self.is_missing = True
            return f"nvidia-ml-py cannot be imported: {error}"
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self.is_missing = error.value == _LIBRARY_NOT_FOUND
            return _in_words(error)
        return ""

    def _list(self, now: float) -> list[ListedGpu]:
        nvml, devices = self._nvml, []
        self._lost = {uuid: reading for uuid, reading in self._lost.items() if reading.uuid}
        count = nvml.nvmlDeviceGetCount()
        for index in range(count):
            self.asking = f"GPU {index}"
            slow_at = now + SLOW_SECONDS * (index + 1) / count
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                devices += [ListedGpu(nvml, handle, index, slow_at), *_mig_instances(nvml, handle, index, slow_at)]
            except nvml.NVMLError as error:
                if error.value == _NO_PERMISSION:
                    self.problem = _PROBLEMS[_NO_PERMISSION]  # a container may see only some of the GPUs
                elif not any(reading.index == index for reading in self._lost.values()):
                    self._lost[f"GPU {index}"] = Reading(index, "", problem=str(error))
        if devices:
            self.problem = ""
        return devices

    def _readings(self, now: float) -> list[Reading]:
        readings = []
        for device in self._devices:
            self.asking = f"GPU {device.index}"
            readings.append(device.read(now))
        self.asking = "the driver's events"
        events = self._events.new() if self._events else {}
        for place, reading in enumerate(readings):
            new = events.get(reading.uuid, ())
            if reading.problem and self._devices[place].gone:
                new = (*new, *self._note_lost(reading, now))
            else:
                self._lost.pop(reading.uuid, None)
            if new:
                readings[place] = replace(reading, events=new)
        self._devices = [device for device in self._devices if not device.gone]
        read = {reading.uuid for reading in readings}
        return [*readings, *(reading for uuid, reading in self._lost.items() if uuid not in read)]

    def _note_lost(self, reading: Reading, now: float) -> tuple[DriverEvent, ...]:
        """Keep a lost GPU in the list. Return the event that reports the loss, but only the first time."""
        is_known = reading.uuid in self._lost
        self._lost[reading.uuid], self._open_at = reading, now + _RETRY_SECONDS
        return () if is_known else (DriverEvent("lost"),)


def _in_words(error: Any) -> str:
    return _PROBLEMS.get(error.value, f"NVML failed to start: {error}")


def _mig_instances(nvml: Any, handle: Any, index: int, slow_at: float) -> Iterator[ListedGpu]:
    """Yield the MIG instances of a GPU, skipping any that cannot be identified."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
        count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle) if current else 0
    except nvml.NVMLError:
        return
    for number in range(count):
        try:
            yield ListedGpu(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number), index, slow_at)
        except nvml.NVMLError:
            continue  # no instance has this number


_XID = 0x8
_EVENT_KINDS = {_XID: "xid", 0x2: "ecc-double-bit", 0x4000: "unavailable"}
"""The kind of event for each NVML event type number (nvmlEventType*)."""
_MOST_EVENTS = 64
"""The maximum number of events to read at once, since a GPU that never stops reporting must not block the thread."""


class Events:
    """Collects the events that the driver reports for some GPUs from now on: Xids, double-bit memory errors, …

    If a GPU or driver does not support events, there are none.
    """

    def __init__(self, nvml: Any, devices: Iterable[ListedGpu]) -> None:
        self._nvml = nvml
        self._uuids: dict[int, str] = {}
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return
        for device in devices:
            try:
                wanted = nvml.nvmlDeviceGetSupportedEventTypes(device.handle) & sum(_EVENT_KINDS)
                if wanted:
                    nvml.nvmlDeviceRegisterEvents(device.handle, wanted, self._set)
                    self._uuids[_address(device.handle)] = device.uuid
            except nvml.NVMLError:
                pass  # this device does not support events, e.g. a MIG instance

    def new(self) -> dict[str, tuple[DriverEvent, ...]]:
        """Return the events since the last call, by GPU UUID. Does not wait."""
        found: dict[str, tuple[DriverEvent, ...]] = {}
        for _ in range(_MOST_EVENTS if self._uuids else 0):
            try:
                data = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError:
                break  # no more events, or a GPU is lost, which its queries will report
            uuid = self._uuids.get(_address(data.device), "")
            event = DriverEvent(
                _EVENT_KINDS.get(data.eventType, "unknown"), data.eventData if data.eventType == _XID else 0
            )
            found[uuid] = (*found.get(uuid, ()), event)
        return found


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
