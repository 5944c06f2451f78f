"""Learns, for each phase, how long silence may last before it counts as a hang. Pure: no clock, no process.

A phase that has been timed may stay silent for five times the 99th percentile of its durations so far, or for as long
as the floor if that is longer. Some phases have not been timed yet (a first validation), or have durations that do not
predict the next one (tracing, a first step, the start of an epoch). Their silence is a hang once the whole process tree
has not used the CPU, read or written for as long as the floor, or once it has lasted ten times as long as the floor.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from oomph.protocol.progress import Phase

FLOOR_SECONDS = 60.0
FLOOR_VARIABLE = "OOMPH_TEST_HANG_FLOOR"
"""The environment variable that sets a lower floor in seconds, at least 3. For tests only."""
_LOWEST_FLOOR_SECONDS = 3.0
FACTOR = 5.0
PERCENTILE = 0.99
UNTIMED_FACTOR = 10.0
_UNEVEN = (Phase.LOOP, Phase.FIRST_STEP, Phase.TRACING, Phase.EPOCH_START, Phase.VALIDATION_START)
"""The phases whose durations do not predict the next one, since it may trace other functions or load more data.

While the process tree is busy, only the longest limit applies to them.
"""
_EARLY_SECONDS = 0.5
"""The margin, in seconds, within which a limit counts as reached, so that the alarm is raised within the limit."""
_RATIO = 1.05
"""The ratio between the bounds of neighbouring duration classes. The percentile is therefore up to 5 % too high."""


class Silence(NamedTuple):
    """The time without progress, and the time for which the script's process tree has been idle."""

    phase: Phase
    fit: int
    seconds: float
    idle_seconds: float
    """The time, in seconds, since the process tree last used the CPU, read or wrote."""
    untimed: bool = False
    """True if earlier durations don't predict this one: the script's own code is running, or is supplying the input."""


class Hang(NamedTuple):
    """A silence diagnosed as a hang."""

    phase: Phase
    fit: int
    seconds: float
    limit_seconds: float
    line: str
    """The line at which the script hangs, such as "train.py:42 in wait", or an empty string if unknown."""
    stacks: str
    """The Python stacks of the process, as faulthandler and py-spy print them."""

    def in_words(self) -> str:
        """Return a one-line message that describes the hang."""
        where = f", at {self.line}" if self.line else ""
        return (
            f"no progress for {self.seconds:.0f} s {self.phase.words} (limit {self.limit_seconds:.0f} s){where}: "
            "stopping the script's processes"
        )


class Timings:
    """The durations so far of each phase of each fit, stored as a histogram."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Phase, int], dict[int, int]] = {}

    def add(self, phase: Phase, fit: int, seconds: float) -> None:
        """Record one duration of the phase."""
        counts = self._counts.setdefault((phase, fit), {})
        index = math.ceil(math.log(max(seconds, 1e-6), _RATIO))
        counts[index] = counts.get(index, 0) + 1

    def percentile(self, phase: Phase, fit: int) -> float | None:
        """Return the 99th percentile of the phase's durations, in seconds, or None if it hasn't been timed yet."""
        counts = self._counts.get((phase, fit))
        return None if not counts else _RATIO ** _quantile(counts)

    def forget(self) -> None:
        """Discard all durations, since phases may take longer after a change."""
        self._counts.clear()


def _quantile(counts: Mapping[int, int]) -> int:
    wanted = PERCENTILE * sum(counts.values())
    seen = 0
    for index in sorted(counts):
        seen += counts[index]
        if seen >= wanted:
            return index
    return max(counts)


def limit(timings: Timings, silence: Silence, floor: float) -> float:
    """Return how long this silence may last, in seconds, given how active the process tree is."""
    longest = UNTIMED_FACTOR * floor
    if silence.phase is Phase.OWN_CODE:
        return longest if silence.idle_seconds >= longest - floor else math.inf
    usual = timings.percentile(silence.phase, silence.fit)
    if usual is not None and not silence.untimed and (silence.phase not in _UNEVEN or is_idle(silence, floor)):
        return max(floor, FACTOR * usual)
    return floor if silence.idle_seconds >= floor - _EARLY_SECONDS else max(longest, FACTOR * (usual or 0.0))


def is_over(silence: Silence, limit_seconds: float) -> bool:
    """True if the silence has reached its limit."""
    return silence.seconds >= limit_seconds - _EARLY_SECONDS


def is_idle(silence: Silence, floor: float) -> bool:
    """True if the process tree has been idle for so long that it must be waiting for something."""
    return silence.idle_seconds >= floor / 2


def floor_seconds(environ: Mapping[str, str] | None = None) -> float:
    """Return the lower bound of all limits, in seconds."""
    try:
        wanted = float((os.environ if environ is None else environ).get(FLOOR_VARIABLE, FLOOR_SECONDS))
    except ValueError:
        return FLOOR_SECONDS
    return max(_LOWEST_FLOOR_SECONDS, wanted)
