"""Arrivals: the processes that came to a GPU while it was watched, and how much memory each took as it came. Pure.

Processes are listed every ten seconds only, and some drivers do not say what each of them holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oomph.monitor.sample import GpuProcess

_COMING_SECONDS = 60.0
"""How long a process may take to allocate what it needs, and how long ago the script has to have been there."""


@dataclass(frozen=True)
class Arrival:
    """A process that came."""

    time: float
    """Of the first list that it is in; Unix time."""
    to_the_script: bool
    """Whether a process of the script was in a list shortly before."""
    used_before: float | None
    """Memory of the GPU in use at the list before, in bytes; None where it was not measured."""
    used_most: float | None = None
    """The most in use while it may have been allocating."""

    @property
    def rise_bytes(self) -> float:
        """By how much the memory in use rose as it came."""
        return 0.0 if self.used_before is None or self.used_most is None else self.used_most - self.used_before


class Arrivals:
    """Those of one GPU."""

    def __init__(self) -> None:
        self._here: dict[int, Arrival | None] = {}
        self._own_at = float("-inf")
        self._used: float | None = None
        self._is_first = True

    def take(self, now: float, processes: Sequence[GpuProcess], used: float | None) -> None:
        """Take the next list; `used`: the memory of the GPU in use, in bytes."""
        beside = 0 <= now - self._own_at <= _COMING_SECONDS
        came = None if self._is_first else Arrival(now, beside, self._used)
        listed = {each.pid: self._here.get(each.pid, came) for each in processes}
        self._here = {pid: None if arrival is None else _grown(arrival, now, used) for pid, arrival in listed.items()}
        if any(each.own for each in processes):
            self._own_at = now
        self._used, self._is_first = used, False

    def of(self, pid: int) -> Arrival | None:
        """The arrival of a process of the newest list; None if it was in the first."""
        return self._here.get(pid)


def _grown(arrival: Arrival, now: float, used: float | None) -> Arrival:
    if used is None or now - arrival.time > _COMING_SECONDS:
        return arrival
    return replace(arrival, used_most=max(used, arrival.used_most or 0.0))
