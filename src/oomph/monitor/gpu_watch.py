"""Determines the GPU part of a sample, from the thread that queries the GPUs (even if it is stuck) and the kernel log.

A stuck driver blocks only that thread. A second thread is never started: it would wait for the same driver lock. If
readable, the kernel log contains Xids that the driver does not report as events, or no longer can.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from oomph.explain.reading.kernel_log import KernelLog, known_bus, xids
from oomph.gpu.reading import Reading
from oomph.monitor.sample import GpuEvent, GpuProcess, GpuSample

_SILENT_SECONDS = 3.0
"""The time, in seconds, after which a missing answer is a fault. NVML answers within milliseconds, or within a second
when busy."""
_PATIENCE_SECONDS = 0.4
"""The time, in seconds, that a sample waits for the GPUs to answer. A later answer becomes part of the next sample."""


class GpuSource(Protocol):
    """The interface of a source to query, implemented by `oomph.gpu.gpus.Gpus`."""

    @property
    def asking(self) -> str: ...

    @property
    def problem(self) -> str: ...

    def read(self, now: float) -> list[Reading]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SourceAnswer:
    """A source's answer to one request."""

    readings: tuple[Reading, ...]
    problem: str
    seconds: float
    """The time, in seconds, that the answer took."""


class GpuThread:
    """Queries a source in a separate thread."""

    def __init__(self, source: GpuSource) -> None:
        self._source = source
        self._requests: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[tuple[Reading, ...], str]] = queue.SimpleQueue()
        self._asked_at: float | None = None
        threading.Thread(target=self._work, name="oomph-gpus", daemon=True).start()

    @property
    def asking(self) -> str:
        """The name of the device being queried right now, such as "GPU 3"; empty between readings."""
        return self._source.asking

    def ask(self, now: float) -> None:
        """Request a reading unless one is already in progress. `now` is a monotonic time in seconds."""
        if self._asked_at is None:
            self._asked_at = now
            self._requests.put(now)

    def answer(self, now: float, wait_seconds: float) -> SourceAnswer | float:
        """Return the answer if it has arrived, or the number of seconds since the request otherwise."""
        assert self._asked_at is not None
        seconds = now - self._asked_at
        try:
            readings, problem = self._answers.get(timeout=wait_seconds)
        except queue.Empty:
            return seconds
        self._asked_at = None
        return SourceAnswer(readings, problem, seconds)

    def close(self) -> None:
        """Ask the thread to stop after its current call. Does not wait for it."""
        self._requests.put(None)

    def _work(self) -> None:
        while (now := self._requests.get()) is not None:
            try:
                answer = tuple(self._source.read(now)), self._source.problem
            except Exception as error:  # e.g. a driver that returns garbage
                answer = (), f"the GPUs cannot be read: {type(error).__name__}: {error}"
            self._answers.put(answer)
        self._source.close()


class GpuWatch:
    """Determines the GPU part of each sample. Call `ask`, do something else, and then call `gpus`."""

    def __init__(self, thread: GpuThread, log: KernelLog) -> None:
        self._thread, self._log = thread, log
        self._last: tuple[Reading, ...] = ()
        self.problem = ""
        """The reason why GPUs or values are missing."""

    def ask(self, now: float) -> None:
        """Request a reading. `now` is a monotonic time in seconds."""
        self._thread.ask(now)

    def gpus(self, now: float, owns: Callable[[int], bool]) -> tuple[GpuSample, ...]:
        """Return the GPUs with the values they reported, or without values if they have not answered.

        Args:
            now: as for `ask`.
            owns: returns True if a process belongs to the watched script.
        """
        answer = self._thread.answer(now, _PATIENCE_SECONDS)
        gpus = self._answered(answer, owns) if isinstance(answer, SourceAnswer) else self._silent(answer)
        events = self._kernel_events()
        return tuple(replace(gpu, events=(*gpu.events, *events.get(gpu.uuid, ()))) for gpu in gpus) if events else gpus

    def _answered(self, answer: SourceAnswer, owns: Callable[[int], bool]) -> tuple[GpuSample, ...]:
        is_late = answer.seconds > _SILENT_SECONDS  # values read before the hanging call are out of date
        gpus = tuple(_sample(reading, owns, is_late) for reading in answer.readings)
        self._last = answer.readings
        self.problem = answer.problem
        return gpus

    def _kernel_events(self) -> dict[str, tuple[GpuEvent, ...]]:
        """Return the Xids that the kernel has logged since the last call, keyed by GPU UUID."""
        lines = self._log.read()
        if not lines:
            return {}
        uuids = {reading.bus: reading.uuid for reading in self._last if reading.bus}
        events: dict[str, tuple[GpuEvent, ...]] = {}
        for bus, code, line in xids(lines):
            uuid = uuids.get(known_bus(bus, uuids) or "")
            if uuid is not None:
                events[uuid] = (*events.get(uuid, ()), GpuEvent("xid", code, "kernel", line.strip()))
        return events

    def _silent(self, seconds: float) -> tuple[GpuSample, ...]:
        known = tuple(GpuSample(gpu.index, gpu.uuid, gpu.name, problem=gpu.problem) for gpu in self._last)
        if seconds <= _SILENT_SECONDS:
            return known
        asked, problem = self._thread.asking or "the driver", f"no answer for {seconds:.0f} s"
        self.problem = f"{asked}: {problem}; nothing else can be queried meanwhile"
        number = asked.removeprefix("GPU ")
        if not number.isdecimal():
            return known
        known = known or (GpuSample(int(number), ""),)
        return tuple(replace(gpu, problem=problem) if gpu.index == int(number) else gpu for gpu in known)


def _sample(reading: Reading, owns: Callable[[int], bool], is_late: bool) -> GpuSample:
    processes = reading.processes
    return GpuSample(
        reading.index,
        reading.uuid,
        reading.name,
        {} if is_late else reading.values,
        None
        if processes is None
        else tuple(GpuProcess(held.pid, held.memory_bytes, _name(held.pid), owns(held.pid)) for held in processes),
        tuple(GpuEvent(event.kind, event.code) for event in reading.events),
        reading.problem,
    )


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""  # it has exited, or runs outside this container
