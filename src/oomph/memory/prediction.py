"""From a program to an interval: the step is run in several orders, with chance in what runs beside what."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from oomph.memory.estimate import Interval
from oomph.memory.liveness import Lifetime, Order, simulate
from oomph.memory.program import Program

_RUNS = (
    (Order.FIRST_READY, 1), (Order.AS_TRACED, 1),
    (Order.FIRST_READY, 2), (Order.AS_TRACED, 2),
    (Order.FIRST_READY, 3), (Order.AS_TRACED, 3), (Order.LAST_READY, 3),
)  # fmt: skip
"""Orders, and how many operations run at a time."""
_ASSUMED = 1.25
"""The bounds move apart by this factor where sizes are assumed."""
LOWER, UPPER = 0.95, 1.12
"""The slack of the interval beyond what the orders span: fitted on the development models of docs/measurements.md."""


@dataclass(frozen=True)
class Prediction:
    """The memory of one step at one batch size, in bytes with everything that is held."""

    peak: Interval
    typical: Lifetime
    """The run whose peak is nearest to the expected one."""


@dataclass(frozen=True)
class Step:
    """A program and what is in use before it runs, in bytes."""

    program: Program
    held: int


def predict(step: Step, batch: int) -> Prediction:
    """The interval of one batch size."""
    lifetimes = [
        simulate(step.program, batch, order, step.held, workers, seed)
        for seed, (order, workers) in enumerate(_RUNS)
    ]  # fmt: skip
    peaks = sorted(run.peak + step.held for run in lifetimes)
    expected = round(statistics.median(peaks))
    typical = min(lifetimes, key=lambda run: abs(run.peak + step.held - expected))
    return Prediction(Interval(round(peaks[0] * LOWER), expected, round(peaks[-1] * UPPER)), typical)


def widened(peak: Interval, largest: int, is_assumed: bool) -> Interval:
    """With room for a second copy of the largest variable, which the first step may make, and for what is not known.

    Args:
        peak: the interval, in bytes.
        largest: the size of that variable.
        is_assumed: whether some sizes are assumed.
    """
    low, high = (1 / _ASSUMED, _ASSUMED) if is_assumed else (1.0, 1.0)
    return Interval(round(low * peak.low), peak.expected, round(high * peak.high) + largest)
