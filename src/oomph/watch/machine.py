"""The machine itself: its GPUs, measured once a second in a thread, where no run measures them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from oomph.gpu.nvml import Nvml
from oomph.gpu.reading import Reading
from oomph.monitor.sample import GpuEvent, GpuProcess, GpuSample, Sample

_EVERY_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
"""How long a driver may take for an answer before that is told."""


class Machine:
    """Measures from its making to `close`. A call into the driver that never returns stays in its thread."""

    def __init__(self) -> None:
        self._nvml = Nvml()
        self._lock = threading.Lock()
        self._new: list[Sample] = []
        self._answered = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._measure, name="oomph watch: GPUs", daemon=True).start()

    def samples(self) -> list[Sample]:
        """What was measured since the last call."""
        with self._lock:
            new, self._new = self._new, []
        return new

    @property
    def problems(self) -> Mapping[str, str]:
        """Why nothing is measured, in words."""
        silent = time.monotonic() - self._answered
        if silent < _PATIENCE_SECONDS:
            return {}
        return {"nvml": f"no answer from {self._nvml.asking or 'NVML'} for {silent:.0f} s"}

    def close(self) -> None:
        """Stop measuring."""
        self._closed.set()

    def _measure(self) -> None:
        while not self._closed.is_set():
            readings = self._nvml.read(time.monotonic())
            problems = {"nvml": self._nvml.problem} if self._nvml.problem else {}
            sample = Sample(time.time(), tuple(map(_gpu, readings)), problems=problems)
            with self._lock:
                self._new.append(sample)
            self._answered = time.monotonic()
            self._closed.wait(_EVERY_SECONDS)


def _gpu(reading: Reading) -> GpuSample:
    return GpuSample(
        reading.index,
        reading.uuid,
        reading.name,
        reading.values,
        None
        if reading.processes is None
        else tuple(GpuProcess(each.pid, each.memory_bytes, _command(each.pid)) for each in reading.processes),
        tuple(GpuEvent(event.kind, event.code) for event in reading.events),
        reading.problem,
    )


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""  # in another container, or gone
