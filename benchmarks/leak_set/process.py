"""A process that exists in numbers only: its resident memory, as it is seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from leak_set.series import Point, Series
from leak_set.training import MIB, log_uniform

SECONDS = 10
"""Between two readings: a tenth of what the monitor takes, which changes nothing but the time the set needs."""

Held = Callable[[float], float]
"""The bytes that are held at a time, in seconds since the process began."""


@dataclass
class Process:
    """Sizes and times of one process, drawn at random."""

    rng: Random
    hours: float = 0.0
    base: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        rng = self.rng
        self.hours = self.hours or rng.uniform(1, 3)
        self.base = self.base or log_uniform(rng, 500 * MIB, 30_000 * MIB)
        self.noise = self.noise or min(log_uniform(rng, 1, 40) * MIB, self.base / 50)
        self.limit = max(self.base * rng.uniform(2, 6), 8192 * MIB)
        self.epoch = log_uniform(rng, 20, 1200)
        """Seconds of an epoch."""

    @property
    def seconds(self) -> float:
        return self.hours * 3600

    def start(self, time: float) -> float:
        """Imports, data and the first step: most of the memory comes in the first minute or two."""
        return self.base * min(0.3 + time / 90, 1)

    def series(self, family: str, held: Held, leak: bool = False, since: float = 0.0) -> Series:
        """The readings of this process as a labelled series."""
        times = [float(time) for time in range(0, int(self.seconds), SECONDS)]
        points = tuple(Point(t, max(self.start(t) + held(t) + self.rng.gauss(0, self.noise), 0)) for t in times)
        return Series(family, family, "outside", leak, self.limit, points, since, seconds=self.seconds)

    def rate(self) -> float:
        """Bytes a second of a leak: from 3 to 300 MiB a minute."""
        return log_uniform(self.rng, 3, 300) * MIB / 60
