"""Reads how far the workers of a run are, again and again, and looks whether their processes are alive."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oomph.monitor.pace import Pace, PaceReading, of_newest_attempt, read_paces
from oomph.monitor.straggler import Straggler, find_straggler
from oomph.process.process_group import is_stopped
from oomph.process.process_identity import boot
from oomph.watch.workers import Trace

_KEPT_SECONDS, _APART_SECONDS = 300.0, 5.0
"""The time over which workers are compared, in seconds, and the least time between two readings that are kept for it.
The monitor compares them over the same time."""


_FRESH_SECONDS = 3.0
"""The silence, in seconds, below which nobody needs to look whether a process is alive: it has just written."""


class WorkerReader:
    """Reads what the workers of a run record. After the first time, it reads only the newest."""

    def __init__(self, path: Path) -> None:
        self._path, self._boot = path, boot()
        self._paces: dict[int, Pace] = {}
        self._changed: dict[int, float] = {}
        """The monotonic time of each worker's newest reading, by this machine's clock."""
        self._is_first = True
        self._straggler: Straggler | None = None
        self._judged_at = float("-inf")

    def read(self, going_on: bool) -> tuple[Trace, ...]:
        """Return what is known of each worker, by rank; empty if there is only one. A run that is over is read once."""
        if self._is_first or going_on:
            for pace in read_paces(self._path, is_newest_only=not self._is_first):
                self._take(pace)
            self._is_first = not self._paces and going_on
        return tuple(self._trace(pace, going_on) for _, pace in sorted(self._paces.items()))

    def straggler(self) -> Straggler | None:
        """Return the worker that the others wait for. They are compared every few seconds: that is most of the work."""
        now = time.monotonic()
        if now - self._judged_at > _APART_SECONDS:
            self._judged_at = now
            self._straggler = find_straggler({rank: pace.readings for rank, pace in self._paces.items()})
        return self._straggler

    def _take(self, pace: Pace) -> None:
        before = self._paces.get(pace.rank)
        if before is not None and pace.newest[:3] == before.newest[:3]:
            return
        now, is_here = time.monotonic(), pace.owner.boot == self._boot
        self._changed[pace.rank] = min(pace.newest.monotonic, now) if is_here else now
        earlier = () if before is None else before.readings
        if len(earlier) > 1 and earlier[-1].monotonic - earlier[-2].monotonic < _APART_SECONDS:
            earlier = earlier[:-1]  # it was only the newest
        self._paces[pace.rank] = replace(pace, readings=_recent((*earlier, *pace.readings)))

    def _trace(self, pace: Pace, going_on: bool) -> Trace:
        silence = max(time.monotonic() - self._changed[pace.rank], 0.0)
        is_here = pace.owner.boot == self._boot and not pace.owner.elsewhere
        if not going_on or not is_here or silence < _FRESH_SECONDS:
            return Trace(pace, silent_seconds=silence)
        lives = pace.owner.lives
        return Trace(pace, lives, lives and is_stopped(pace.owner.pid), silence)


def _recent(readings: Sequence[PaceReading]) -> tuple[PaceReading, ...]:
    """Return at most about 60 readings of the newest attempt and the last minutes, and at least the last two."""
    own = of_newest_attempt(readings)
    since = own[-1].monotonic - _KEPT_SECONDS
    first = next((place for place, each in enumerate(own) if each.monotonic >= since), 0)
    kept = own[min(first, max(len(own) - 2, 0)) : -1]
    return (*kept[:: 1 + int(len(kept) * _APART_SECONDS / _KEPT_SECONDS)], own[-1])
