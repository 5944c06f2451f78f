"""Predicts a step's peak: simulated in several orders, with random concurrency, then corrected by real steps.

Real steps need more or less memory than the simulation predicts. The ratio changes slowly with the batch size, but each
measurement of it is noisy: thread timing decides which operations overlap, and TensorFlow orders the same step
differently in each process (in six processes, a recurrent network over videos used 599 to 1,747 MiB). Training runs in
a single order, and its peak is that of its largest step. Each order is therefore represented by its largest step.

A batch size that ran has its own ratio. At other sizes, the ratio is the mean of two estimates: one interpolated
between the neighbouring sizes that ran, and one averaged over all sizes that ran, with the nearest size weighing most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.planning.liveness import Lifetime, Order, simulate
from oomph.planning.plan import Interval
from oomph.planning.program import Program

_RUNS = (
    (Order.THREAD_POOL, 2), (Order.FIRST_READY, 1),
    (Order.THREAD_POOL, 2), (Order.AS_TRACED, 1),
    (Order.THREAD_POOL, 2), (Order.FIRST_READY, 2),
)  # fmt: skip
"""The runs to simulate, as pairs of an order and a number of concurrent operations, most informative runs first."""
_EFFORT = 60_000
"""The approximate number of operations to simulate for a prediction; at least one run of two steps is simulated."""
_MOST_STEPS = 3
_ASSUMED = 1.25
"""The factor that widens the bounds if sizes are assumed."""
_LOWER_SIMULATED, _UPPER_SIMULATED = 0.95, 1.12
"""The factors that turn the lowest and highest simulated peaks into bounds.

They were fitted on the development models of docs/measurements.md.
"""
LOWER, UPPER = 0.9, 1.22
"""The bounds as multiples of the expected peak, within the sizes that ran: a step's peak differs between processes."""
SCRATCH = 32 << 20
"""The size in bytes added to the upper bound of a step with convolutions.

A convolution in the backward pass needs this much scratch memory on the CPU, and thread timing decides whether two of
them overlap. It matters only for small models.
"""
_WIDER = 0.04
"""The relative widening of the interval for each doubling of the batch beyond the largest size that ran.

All of these values were fitted on the models that docs/measurements.md contained at the time.
"""
_MOST_DOUBLINGS = 4
_UNCORRECTED = (0.9, 1.4)
"""The bounds as multiples of the expected peak if no real step ran.

On three models, the fuller of the test rig's two GPUs used up to 1.25 times the expected peak.
"""


@dataclass(frozen=True)
class Prediction:
    """The predicted memory of one step at one batch size, in bytes, including memory held between steps."""

    peak: Interval
    typical: Lifetime
    """The simulated run whose peak is closest to the expected peak."""


@dataclass(frozen=True)
class PredictedStep:
    """The program of a step, and the memory in use before it runs, in bytes."""

    program: Program
    held: int


def predict(step: PredictedStep, batch: int) -> Prediction:
    """Predict the peak at a batch size. The expected value is the thread pool's median run; all runs set the bounds."""
    runs, steps = _affordable(len(step.program.operations))
    lifetimes = [
        (order, simulate(step.program, batch, order, step.held, workers, seed, steps))
        for seed, (order, workers) in enumerate(runs)
    ]  # fmt: skip
    peaks = [run.peak + step.held for _, run in lifetimes]
    likely = [run.peak + step.held for order, run in lifetimes if order is Order.THREAD_POOL]
    expected = round(statistics.median(likely))
    typical = min((run for _, run in lifetimes), key=lambda run: abs(run.peak + step.held - expected))
    return Prediction(
        Interval(round(min(peaks) * _LOWER_SIMULATED), expected, round(max(peaks) * _UPPER_SIMULATED)), typical
    )


def _affordable(operations: int) -> tuple[Sequence[tuple[Order, int]], int]:
    """Return the runs to simulate for a program with this many operations, and the number of steps per run."""
    passes = _EFFORT // max(1, operations)
    steps = max(2, min(_MOST_STEPS, passes // len(_RUNS)))
    return _RUNS[: max(1, min(len(_RUNS), passes // steps))], steps


def widened(peak: Interval, largest: int, is_assumed: bool) -> Interval:
    """Add room for a second copy of the largest variable, which the first step may make, and for assumed sizes.

    Args:
        peak: the interval, in bytes.
        largest: the size of the largest variable, in bytes.
        is_assumed: True if some sizes are assumed.
    """
    low, high = (1 / _ASSUMED, _ASSUMED) if is_assumed else (1.0, 1.0)
    return Interval(round(low * peak.low), peak.expected, round(high * peak.high) + largest)


def between(below: Interval, above: Interval, part: float) -> Interval:
    """Interpolate linearly at `part` of the way between two intervals; the result is never below the first."""
    pairs = ((below.low, above.low), (below.expected, above.expected), (below.high, above.high))
    return Interval(*(round(one + part * max(0, other - one)) for one, other in pairs))


@dataclass(frozen=True)
class MeasuredSteps:
    """The peaks of real steps at one batch size, and the predicted peak, in bytes."""

    batch: int
    orders: Sequence[Sequence[int]]
    """The peaks of the steps, one sequence for each order of operations that ran."""
    predicted: int

    @property
    def factors(self) -> list[float]:
        """The highest measured peak divided by the predicted peak, for each order of operations."""
        return [max(peaks) / self.predicted for peaks in self.orders]

    @property
    def factor(self) -> float:
        """The mean of `factors` over all orders of operations."""
        return sum(self.factors) / len(self.orders)


@dataclass(frozen=True)
class Correction:
    """Corrects simulated peaks, based on the peaks of real steps at increasing batch sizes."""

    measured: Sequence[MeasuredSteps]
    scratch: int = 0
    """The size in bytes that thread timing may add to the upper bound."""

    def of(self, peak: Interval, batch: int, held: int) -> Interval:
        """Correct the peak of a step of `batch` samples; never below `held`, the bytes that are always in use."""
        factor, wider = self.factor(batch), wider_beyond(batch, self.measured[-1].batch)
        least, most = self.range(batch)
        expected = max(held, round(peak.expected * factor))
        low = max(held, round(peak.expected * min(LOWER * factor, least) / wider))
        high = max(UPPER * expected, most * peak.expected)
        return Interval(min(low, expected), expected, round(high * wider) + self.scratch)

    def factor(self, batch: int) -> float:
        """Return the ratio of real to simulated memory at this batch size; it is constant beyond the sizes that ran."""
        own = [one.factor for one in self.measured if one.batch == batch]
        if own:
            return own[0]
        batch = min(max(batch, self.measured[0].batch), self.measured[-1].batch)
        weights = [1 / (1 + abs(_doublings(batch, one.batch))) ** 2 for one in self.measured]
        average = sum(weight * one.factor for weight, one in zip(weights, self.measured, strict=True)) / sum(weights)
        return (self._between(batch) + average) / 2

    def range(self, batch: int) -> tuple[float, float]:
        """Return the lowest and highest factors to expect when operations run in a different order.

        These are the factors at this size, or at its two neighbours, widened at each end by the square root of the
        largest ratio between two orders of the same size, since a handful of orders is unlikely to include the
        extremes.
        """
        below = max((one for one in self.measured if one.batch <= batch), key=_batch, default=self.measured[0])
        above = min((one for one in self.measured if one.batch >= batch), key=_batch, default=self.measured[-1])
        factors = [*below.factors, *above.factors]
        beyond = math.sqrt(max(max(one.factors) / min(one.factors) for one in self.measured))
        return min(factors) / beyond, max(factors) * beyond

    def _between(self, batch: int) -> float:
        """Interpolate the factor at this batch size between the two nearest sizes that ran."""
        for small, large in zip(self.measured, self.measured[1:], strict=False):
            if batch <= large.batch:
                part = _doublings(batch, small.batch) / _doublings(large.batch, small.batch)
                return small.factor + part * (large.factor - small.factor)
        return self.measured[-1].factor


def wider_beyond(batch: int, largest: int) -> float:
    """Return the width of the interval at a batch size, relative to its width at the largest size that ran."""
    return 1 + _WIDER * min(_MOST_DOUBLINGS, max(0.0, _doublings(batch, largest)))


def _batch(one: MeasuredSteps) -> int:
    return one.batch


def _doublings(batch: int, since: int) -> float:
    return math.log2(batch / since)


def uncorrected(peak: Interval) -> Interval:
    """Widen the bounds of one replica's peak, because no real step corrects the simulation."""
    low, high = (round(bound * peak.expected) for bound in _UNCORRECTED)
    return Interval(min(peak.low, low), peak.expected, max(peak.high, high))


def correction(measured: Sequence[MeasuredSteps], convolves: bool = False) -> Correction | None:
    """Build the correction from real steps, or return None if no step ran."""
    return Correction(tuple(measured), SCRATCH if convolves else 0) if measured else None
