"""The thread that asks the GPUs. A stuck driver blocks only this thread.

There is never a second one: it would wait for the same lock of the driver.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import Protocol

from oomph.gpu.reading import Reading


class GpuSource(Protocol):
    """The source to ask: `oomph.gpu.gpus.Gpus`."""

    @property
    def asking(self) -> str: ...

    @property
    def problem(self) -> str: ...

    def read(self, now: float) -> list[Reading]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SourceAnswer:
    """The source's answer to one request."""

    readings: tuple[Reading, ...]
    problem: str
    seconds: float
    """The seconds since the request."""


class GpuThread:
    """Asks a source in a thread of its own."""

    def __init__(self, source: GpuSource) -> None:
        self._source = source
        self._requests: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[tuple[Reading, ...], str]] = queue.SimpleQueue()
        self._asked_at: float | None = None
        threading.Thread(target=self._work, name="oomph-gpus", daemon=True).start()

    @property
    def asking(self) -> str:
        """The name of what is being asked at this moment, such as "GPU 3"; empty between two readings."""
        return self._source.asking

    def ask(self, now: float) -> None:
        """Begin a reading, unless one is under way; `now` is a monotonic time in seconds."""
        if self._asked_at is None:
            self._asked_at = now
            self._requests.put(now)

    def answer(self, now: float, wait_seconds: float) -> SourceAnswer | float:
        """The answer; or, while there is none, the seconds since the request."""
        assert self._asked_at is not None
        seconds = now - self._asked_at
        try:
            readings, problem = self._answers.get(timeout=wait_seconds)
        except queue.Empty:
            return seconds
        self._asked_at = None
        return SourceAnswer(readings, problem, seconds)

    def close(self) -> None:
        """End the thread after its current call, without waiting."""
        self._requests.put(None)

    def _work(self) -> None:
        while (now := self._requests.get()) is not None:
            try:
                answer = tuple(self._source.read(now)), self._source.problem
            except Exception as error:  # a driver that answers what no driver should
                answer = (), f"the GPUs cannot be read: {type(error).__name__}: {error}"
            self._answers.put(answer)
        self._source.close()
