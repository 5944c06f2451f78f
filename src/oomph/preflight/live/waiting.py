"""Measures how long steps wait for their batches, and which stage of the pipeline costs it."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import kind_of, static
from oomph.keras_bridge.pipelines.rebuilding import linear
from oomph.preflight.facts.data import Data
from oomph.preflight.facts.pipeline import StageCost, Waiting

_SECONDS = 2.5
"""The seconds for each measurement of a training."""
_STAGE_SECONDS = 0.6
_FEWEST, _MOST = 4, 200
"""The fewest and the most steps in one measurement."""
INPUT_BOUND = 0.2
"""The share of time spent waiting from which stages are measured, and changes tried."""
_MANY_OF_ONE = ("interleave", "flat_map", "unbatch", "filter")
_MOST_ELEMENTS = 1_000_000


class Trainer:
    """Keras' own train function for any kind of data."""

    def __init__(self, model: Any) -> None:
        model.train_function = None  # one that has seen a smaller batch would take the size of a batch as unknown
        model.make_train_function()
        self._model = model

    def over(self, dataset: Any) -> Iterator[float]:
        """The seconds of each step in one epoch, including fetching the batch."""
        strategy = self._model.distribute_strategy
        if strategy.num_replicas_in_sync > 1:
            dataset = strategy.experimental_distribute_dataset(dataset)
        iterator = iter(dataset)
        while True:
            began = time.perf_counter()
            try:
                logs = self._model.train_function(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                return
            for value in tf.nest.flatten(logs):
                np.asarray(value)  # on a GPU, the end of the step
            yield time.perf_counter() - began


def measure(dataset: Any, data: Data, trainer: Trainer) -> Waiting | None:
    """Measure the time a training waits for this dataset; None if the data end before anything can be measured.

    Args:
        dataset: what fit was given.
        data: the facts about it.
        trainer: trains on it.
    """
    alone = seconds_of_step_alone(dataset, trainer)
    whole = None if alone is None else seconds_of_step(dataset, trainer)
    if alone is None or whole is None:
        return None
    waiting = Waiting(whole[0], alone, max(0.0, whole[1] - alone))
    return waiting if waiting.share < INPUT_BOUND else replace(waiting, costs=_costs(dataset, data))


def seconds_of_step_alone(dataset: Any, trainer: Trainer) -> float | None:
    """The median time of a step that need not wait: its batch is always the same."""
    first = next(iter(dataset), None)
    if first is None:
        return None
    steps = trainer.over(tf.data.Dataset.from_tensors(first).repeat())
    for _ in range(2):  # the first traces, the second fills what the first has freed
        next(steps)
    return statistics.median(_until(steps, _SECONDS / 2))


def seconds_of_step(dataset: Any, trainer: Trainer, seconds: float = _SECONDS) -> tuple[int, float] | None:
    """The number of steps measured, and the mean time of one.

    The first step of an epoch is left out: a shuffle fills its buffer then.
    """
    found: list[float] = []
    until = time.monotonic() + seconds
    while len(found) < _FEWEST or (time.monotonic() < until and len(found) < _MOST):
        steps = trainer.over(dataset)
        if next(steps, None) is None:
            break
        seen = _until(steps, max(until - time.monotonic(), 0.0))
        found += seen
        if not seen:
            break  # an epoch of a single batch: there is no wait to see
    return (len(found), statistics.fmean(found)) if found else None


def _until(steps: Iterator[float], seconds: float) -> list[float]:
    """The durations in seconds of the steps that fit into `seconds`, but of at least a few."""
    found: list[float] = []
    until = time.monotonic() + seconds
    for spent in steps:
        found.append(spent)
        if len(found) >= _MOST or (len(found) >= _FEWEST and time.monotonic() >= until):
            break
    return found


# -- what each stage costs ---------------------------------------------------------------------------------------------


def _costs(dataset: Any, data: Data) -> tuple[StageCost, ...]:
    """The seconds per batch for each stage: the pipeline's time up to the stage, less that up to the stage before."""
    datasets = linear(dataset)
    offset = len(data.stages) - len(datasets)
    costs, before = [], 0.0
    first = max((index for index, each in enumerate(datasets) if kind_of(each) in _MANY_OF_ONE), default=0)
    for index, each in enumerate(datasets):
        if index < first:
            continue  # how many of its elements become one batch is not known
        spent = _seconds_of_batch(each, _elements_of_batch(datasets[index + 1 :]))
        if spent is None:
            return ()
        stage = data.stages[index + offset]
        costs.append(StageCost(index + offset, stage.kind, max(0.0, spent - before), stage.place, stage.function))
        before = max(before, spent)
    return tuple(costs)


def _elements_of_batch(after: Sequence[Any]) -> int:
    """The number of a stage's elements in one final batch."""
    return math.prod(size for each in after if (size := _batch_size(each)) is not None)


def _batch_size(dataset: Any) -> int | None:
    return static(TENSORFLOW.dataset_batch_size.get(dataset)) if kind_of(dataset) in ("batch", "padded_batch") else None


def _seconds_of_batch(dataset: Any, elements: int) -> float | None:
    """The seconds to produce this many elements, in a loop of TensorFlow's: Python's costs more than most stages."""
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
