"""Reads how far the workers of a run are, again and again, and looks whether their processes are alive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oomph.monitor.pace import Pace, PaceReading, of_newest_attempt, read_paces
from oomph.process.process_group import is_stopped
from oomph.process.process_identity import boot
from oomph.watch.workers import Trace

_KEPT_SECONDS = 300.0
"""The time over which workers are compared, in seconds. The monitor compares them over the same."""


class WorkerReader:
    """Reads what the workers of a run record. After the first time, it reads only the newest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paces: dict[int, Pace] = {}
        self._changed: dict[int, float] = {}
        """The monotonic time of each worker's newest reading, by this machine's clock."""
        self._is_first = True

    def read(self, going_on: bool) -> tuple[Trace, ...]:
        """Return what is known of each worker, by rank; empty if there is only one. A run that is over is read once."""
        if self._is_first or going_on:
            for pace in read_paces(self._path, is_newest_only=not self._is_first):
                self._take(pace)
            self._is_first = not self._paces and going_on
        return tuple(self._trace(pace, going_on) for _, pace in sorted(self._paces.items()))

    def _take(self, pace: Pace) -> None:
        before = self._paces.get(pace.rank)
        if before is not None and pace.newest[:3] == before.newest[:3]:
            return
        now, is_here = time.monotonic(), pace.owner.boot == boot()
        self._changed[pace.rank] = min(pace.newest.monotonic, now) if is_here else now
        readings = pace.readings if before is None else (*before.readings, *pace.readings)
        self._paces[pace.rank] = replace(pace, readings=_recent(readings))

    def _trace(self, pace: Pace, going_on: bool) -> Trace:
        lives = None if not going_on or pace.owner.elsewhere else pace.owner.lives
        silence = max(time.monotonic() - self._changed[pace.rank], 0.0)
        return Trace(pace, lives, bool(lives) and is_stopped(pace.owner.pid), silence)


def _recent(readings: Sequence[PaceReading]) -> tuple[PaceReading, ...]:
    """Return the readings of the newest attempt and the last minutes, and at least the last two."""
    own = of_newest_attempt(readings)
    since = own[-1].monotonic - _KEPT_SECONDS
    first = next((place for place, each in enumerate(own) if each.monotonic >= since), 0)
    return tuple(own[min(first, max(len(own) - 2, 0)) :])
