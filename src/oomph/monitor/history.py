"""History: one reading for all of a run, the thinner the older it is.

A window forgets after an hour, and the last hour of what levels off looks straight.
"""

from __future__ import annotations

from collections.abc import Sequence

from oomph.monitor.growth import Point

_SECONDS = 20.0
"""The lowest of so many seconds is kept: garbage and batches in flight come and go within them."""
_MOST = 1024
"""When there are more, every second of the older half is dropped."""


class History:
    """The floor of a reading since the run began. Append-only."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._begin = float("-inf")

    def add(self, time: float, value: float) -> None:
        """Add the newest reading."""
        if self._points and 0 <= time - self._begin < _SECONDS:
            self._points[-1] = min(self._points[-1], (time, value), key=lambda point: point[1])
            return
        self._begin = time
        self._points.append((time, value))
        if len(self._points) > _MOST:
            del self._points[1 : _MOST // 2 : 2]

    @property
    def points(self) -> Sequence[Point]:
        """(time, value), oldest first."""
        return self._points
