"""Prediction of a program's peak: the step is simulated in several orders, with random concurrency."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.planning.estimate import Interval
from oomph.planning.liveness import Lifetime, simulate
from oomph.planning.program import Program
from oomph.planning.schedule import Order

_RUNS = (
    (Order.THREAD_POOL, 2), (Order.FIRST_READY, 1),
    (Order.THREAD_POOL, 2), (Order.AS_TRACED, 1),
    (Order.THREAD_POOL, 2), (Order.FIRST_READY, 2),
)  # fmt: skip
"""The runs to simulate: an order, and how many operations run at a time. The most informative runs come first."""
_EFFORT = 60_000
"""The approximate number of operations to simulate for a prediction, but at least one run of two steps."""
_MOST_STEPS = 3
_ASSUMED = 1.25
"""The factor that widens the bounds if sizes are assumed."""
LOWER, UPPER = 0.95, 1.12
"""The factors that turn the lowest and the highest simulated peak into the bounds: fitted on the development models of
docs/measurements.md."""


@dataclass(frozen=True)
class Prediction:
    """The predicted memory of one step at one batch size, in bytes, including what is held between steps."""

    peak: Interval
    typical: Lifetime
    """The simulated run whose peak is nearest to the expected peak."""


@dataclass(frozen=True)
class PredictedStep:
    """The program of a step, and the bytes in use before it runs."""

    program: Program
    held: int


def predict(step: PredictedStep, batch: int) -> Prediction:
    """The predicted peak at a batch size: the thread pool's median run is expected, and the bounds span all runs."""
    runs, steps = _affordable(len(step.program.operations))
    lifetimes = [
        (order, simulate(step.program, batch, order, step.held, workers, seed, steps))
        for seed, (order, workers) in enumerate(runs)
    ]  # fmt: skip
    peaks = [run.peak + step.held for _, run in lifetimes]
    likely = [run.peak + step.held for order, run in lifetimes if order is Order.THREAD_POOL]
    expected = round(statistics.median(likely))
    typical = min((run for _, run in lifetimes), key=lambda run: abs(run.peak + step.held - expected))
    return Prediction(Interval(round(min(peaks) * LOWER), expected, round(max(peaks) * UPPER)), typical)


def _affordable(operations: int) -> tuple[Sequence[tuple[Order, int]], int]:
    """The runs to simulate for a program of this many operations, and the steps of each run."""
    passes = _EFFORT // max(1, operations)
    steps = max(2, min(_MOST_STEPS, passes // len(_RUNS)))
    return _RUNS[: max(1, min(len(_RUNS), passes // steps))], steps


def widened(peak: Interval, largest: int, is_assumed: bool) -> Interval:
    """Add room for a second copy of the largest variable, which the first step may make, and for assumed sizes.

    Args:
        peak: the interval, in bytes.
        largest: the size of that variable.
        is_assumed: whether some sizes are assumed.
    """
    low, high = (1 / _ASSUMED, _ASSUMED) if is_assumed else (1.0, 1.0)
    return Interval(round(low * peak.low), peak.expected, round(high * peak.high) + largest)


def between(below: Interval, above: Interval, part: float) -> Interval:
    """The interval at `part` of the way between two intervals, linear; never below the first."""
    pairs = ((below.low, above.low), (below.expected, above.expected), (below.high, above.high))
    return Interval(*(round(one + part * max(0, other - one)) for one, other in pairs))
