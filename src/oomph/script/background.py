"""Runs one task at a time in a thread alongside training. Standard library only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The outcome of a finished task."""

    seconds: float
    result: T | None = None
    error: Exception | None = None


class Background(Generic[T]):
    """A daemon thread for one task at a time, which never delays the script's exit."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._outcome: Outcome[T] | None = None

    @property
    def busy(self) -> bool:
        """True if a task is running, or its outcome has not been taken yet."""
        return self._thread is not None

    def start(self, work: Callable[[], T]) -> None:
        """Start a task. The outcome of the previous task must have been taken."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, args=(work,), name="oomph-checkpoint", daemon=True)
        self._thread.start()

    def take(self, wait: bool = False) -> Outcome[T] | None:
        """Return the outcome, but only once, or None if there is none yet. With `wait`, wait for the task to finish."""
        if self._thread is None or (not wait and self._thread.is_alive()):
            return None
        self._thread.join()
        self._thread, outcome = None, self._outcome
        self._outcome = None
        return outcome

    def _run(self, work: Callable[[], T]) -> None:
        started = time.monotonic()
        try:
            result = work()
        except Exception as error:
            self._outcome = Outcome(time.monotonic() - started, error=error)
        else:
            self._outcome = Outcome(time.monotonic() - started, result)
