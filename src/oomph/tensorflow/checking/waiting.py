"""Measures how long steps wait for their batches, and which stage of the pipeline costs it."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.pipeline import StageCost, Waiting
from oomph.tensorflow.checking.rebuilding import linear
from oomph.tensorflow.checking.stages import kind_of, static
from oomph.tensorflow.names.tensorflow2 import TENSORFLOW

_SECONDS = 2.5
"""For each measurement of a training."""
_STAGE_SECONDS = 0.6
_FEWEST, _MOST = 4, 200
"""Steps of one measurement."""
INPUT_BOUND = 0.2
"""The share of waiting from which stages are measured, and changes tried."""
_MOST_ELEMENTS = 1_000_000

Step = Callable[[Any], object]
"""Trains on one batch."""


def measure(dataset: Any, data: Data, step: Step) -> Waiting | None:
    """How long a training waits for this dataset; None if the data end before anything can be measured.

    Args:
        dataset: what fit was given.
        data: what is known of it.
        step: trains on one batch.
    """
    found = trained_on(dataset, step)
    if found is None:
        return None
    waiting = Waiting(*found)
    return waiting if waiting.share < INPUT_BOUND else replace(waiting, costs=_costs(dataset, data))


def trained_on(dataset: Any, step: Step, seconds: float = _SECONDS) -> tuple[int, float, float] | None:
    """Train for a while: the steps, the median time of one, and the mean wait for a batch.

    The wait for the first batch of an epoch is left out: a shuffle fills its buffer then.
    """
    first = next(iter(dataset), None)
    if first is None:
        return None
    for _ in range(2):  # the first traces, the second fills what the first has freed
        step(first)
    waits: list[float] = []
    steps: list[float] = []
    until = time.monotonic() + seconds
    while len(steps) < _FEWEST or (time.monotonic() < until and len(steps) < _MOST):
        before = len(steps)
        _one_epoch(dataset, step, waits, steps, until)
        if len(steps) - before < 2:
            break  # an epoch of a single batch: there is no wait to see
    if not waits:
        return None
    return len(steps), statistics.median(steps), sum(waits) / len(waits)


def _one_epoch(dataset: Any, step: Step, waits: list[float], steps: list[float], until: float) -> None:
    asked = None
    for batch in dataset:
        began = time.perf_counter()
        if asked is not None:
            waits.append(began - asked)
        step(batch)
        asked = time.perf_counter()
        steps.append(asked - began)
        if len(steps) >= _MOST or (len(steps) >= _FEWEST and time.monotonic() >= until):
            return


# -- what each stage costs ---------------------------------------------------------------------------------------------


def _costs(dataset: Any, data: Data) -> tuple[StageCost, ...]:
    """The time of each stage for one batch: of the pipeline up to it, less that up to the one before."""
    datasets = linear(dataset)
    offset = len(data.stages) - len(datasets)
    costs, before = [], 0.0
    for index, each in enumerate(datasets):
        spent = _seconds_of_batch(each, _elements_of_batch(datasets[index + 1 :]))
        if spent is None:
            return ()
        stage = data.stages[index + offset]
        costs.append(StageCost(index + offset, stage.kind, max(0.0, spent - before), stage.place, stage.function))
        before = max(before, spent)
    return tuple(costs)


def _elements_of_batch(after: Sequence[Any]) -> int:
    """How many elements of a stage become one batch at the end."""
    return math.prod(size for each in after if (size := _batch_size(each)) is not None)


def _batch_size(dataset: Any) -> int | None:
    return static(TENSORFLOW.dataset_batch_size.get(dataset)) if kind_of(dataset) in ("batch", "padded_batch") else None


def _seconds_of_batch(dataset: Any, elements: int) -> float | None:
    """The time for so many elements, counted in TensorFlow: iterating in Python would cost more than most stages."""
    number = elements
    while True:
        began = time.perf_counter()
        try:
            seen = int(dataset.take(number).reduce(np.int64(0), lambda count, *element: count + 1))
        except (tf.errors.OpError, TypeError, ValueError):
            return None
        spent = time.perf_counter() - began
        if seen < number or spent > _STAGE_SECONDS / 2 or number > _MOST_ELEMENTS:
            return spent / seen * elements if seen else None
        number *= 4
