"""A training that exists in numbers only: when its baselines are taken, and how much memory batches in flight hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from leak_set.series import Point, Series

MIB = 1 << 20
STEPS_BETWEEN, SECONDS_BETWEEN, SHARE_BETWEEN = 200, 1.0, 0.02
"""Inside an epoch, a baseline is taken every so many steps or after this share of the time that the fit has taken, and
at most once in so many seconds: as `Meter` does."""


def log_uniform(rng: Random, low: float, high: float) -> float:
    """A number between the two, each order of magnitude as likely as the next."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@dataclass(frozen=True)
class Moment:
    """When a baseline is taken."""

    time: float
    step: int
    epoch: int
    """The epoch, from 1, whether it has ended or not."""
    part: float
    """How much of it is done; 1 at its end."""

    @property
    def epochs(self) -> float:
        """Epochs done since the fit began."""
        return self.epoch - 1 + self.part


Held = Callable[[Moment], float]
"""The bytes that stay allocated at a moment, beyond the model."""


@dataclass
class Training:
    """Sizes and times of one training, drawn at random."""

    rng: Random
    epochs: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    model: float = 0.0
    batch: float = 0.0
    limit: float = 0.0

    def __post_init__(self) -> None:
        rng = self.rng
        self.epochs = self.epochs or int(log_uniform(rng, 15, 80))
        self.steps = self.steps or int(log_uniform(rng, 10, 4000))
        self.step_seconds = self.step_seconds or log_uniform(rng, 5, 900) / self.steps
        self.model = self.model or log_uniform(rng, 2 * MIB, 8192 * MIB)
        self.batch = self.batch or self.model * log_uniform(rng, 0.0005, 0.03)
        self.limit = self.limit or max(self.model * log_uniform(rng, 3, 30), 256 * MIB)
        self._settled = rng.randint(0, 2)

    def total(self) -> float:
        """By how much a leak grows in all: something that a user would want to know of."""
        return max(self.model * log_uniform(self.rng, 0.02, 1.5), 6 * self.batch, 2 * MIB)

    def in_flight(self, moment: Moment) -> float:
        """Batches that wait or are in work: a few in the middle of an epoch, nearly always the same at its end."""
        rng = self.rng
        if moment.part < 1:
            return self.batch * rng.choice((1, 2, 2, 2, 3))
        number = self._settled if rng.random() < 0.85 else rng.randint(0, 2)
        return self.batch * number + rng.randint(-4, 4) * 256

    def moments(self, begin: float = 0.0, first_step: int = 0) -> Iterator[tuple[Moment, bool]]:
        """Every baseline of a fit, and whether it is one of an epoch's end."""
        for epoch in range(1, self.epochs + 1):
            step = 0
            while True:
                elapsed = ((epoch - 1) * self.steps + step) * self.step_seconds
                wait = max(SECONDS_BETWEEN, min(STEPS_BETWEEN * self.step_seconds, SHARE_BETWEEN * elapsed))
                step += max(math.ceil(wait / self.step_seconds), 1)
                if step >= self.steps:
                    break
                done = (epoch - 1) * self.steps + step
                yield Moment(begin + done * self.step_seconds, first_step + done, epoch, step / self.steps), False
            done = epoch * self.steps
            yield Moment(begin + done * self.step_seconds, first_step + done, epoch, 1.0), True

    def points(self, held: Held, begin: float = 0.0, first_step: int = 0) -> tuple[Point, ...]:
        """The baselines of a fit that holds so much."""
        return tuple(
            Point(at.time, max(self.model + self.in_flight(at) + held(at), 0.0), at.step, at.epoch if ended else 0)
            for at, ended in self.moments(begin, first_step)
        )

    def series(self, family: str, held: Held, leak: bool = False, since_epoch: float = 0.0) -> Series:
        """One fit as a labelled series."""
        since = since_epoch * self.steps * self.step_seconds
        return Series(family, family, "inside", leak, self.limit, self.points(held), since, self.epochs, self.steps)


def fits(family: str, trainings: list[Training], held: Callable[[int, Moment], float], leak: bool = False) -> Series:
    """Several fits of one process, one after the other; `held` is given the number of the fit as well."""
    points: list[Point] = []
    for number, training in enumerate(trainings):
        begin, step = (points[-1].time + 2, points[-1].step) if points else (0.0, 0)
        points += training.points(lambda at, number=number: held(number, at), begin, step)  # type: ignore[misc]
    alike = {(each.epochs, each.steps) for each in trainings}
    epochs, steps = alike.pop() if len(alike) == 1 else (0, 0)
    limit = max(each.limit for each in trainings)
    return Series(family, family, "inside", leak, limit, tuple(points), 0.0, epochs, steps)
