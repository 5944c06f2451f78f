"""Measures how long steps wait for batches, which stages cause the wait, and which pipeline changes pay off.

Each change is applied, and measurements alternate between the changed and the original pipeline.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import kind_of, static
from oomph.keras_bridge.pipelines.rebuilding import Apply, as_it_was, function_of, interleaved, linear, mapped, rebuilt
from oomph.preflight.facts.data import ENDLESS, Data, Stage
from oomph.preflight.facts.training import PipelineChange, StageCost, Waiting

_SECONDS = 2.5
"""The duration, in seconds, of each measurement of training steps."""
_STAGE_SECONDS = 0.15
"""The time, in seconds, after which the measurement of a stage stops."""
_STAGE_ROUNDS = 2
"""The number of measurements per stage; the shortest one counts."""
_FEWEST, _MOST = 4, 200
"""The minimum and maximum number of steps per measurement."""
INPUT_BOUND = 0.2
"""The share of time spent waiting at which stages are measured and changes are tried."""
_MANY_OF_ONE = ("interleave", "flat_map", "unbatch", "filter")
_MOST_ELEMENTS = 1_000_000
_ROUND_SECONDS = 1.25
"""The duration, in seconds, of one measurement; each pipeline is measured twice."""
_PAYS = 1.1
"""The minimum speedup of a step that makes a change worthwhile. Two runs of the same pipeline differ by less."""
_COMPARED_BATCHES = 5


class Trainer:
    """Runs Keras' own train function on any kind of data."""

    def __init__(self, model: Any) -> None:
        model.train_function = None  # a function traced with a smaller batch would treat the batch size as unknown
        model.make_train_function()
        self._model = model

    def over(self, dataset: Any) -> Iterator[float]:
        """Yield the time, in seconds, of each step in one epoch, including fetching its batch."""
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
                np.asarray(value)  # on a GPU, waits for the step to finish
            yield time.perf_counter() - began


def measure(dataset: Any, data: Data, trainer: Trainer) -> Waiting | None:
    """Measure how long training waits for this dataset. Returns None if the data runs out before anything is measured.

    Args:
        dataset: the dataset passed to fit.
        data: the facts about the dataset.
        trainer: runs the training steps.
    """
    alone = seconds_of_step_alone(dataset, trainer)
    whole = None if alone is None else seconds_of_step(dataset, trainer)
    if alone is None or whole is None:
        return None
    waiting = Waiting(whole[0], alone, max(0.0, whole[1] - alone))
    return waiting if waiting.share < INPUT_BOUND else replace(waiting, costs=_costs(dataset, data))


def seconds_of_step_alone(dataset: Any, trainer: Trainer) -> float | None:
    """Measure the median time of a step that never waits, because it always gets the same batch."""
    first = next(iter(dataset), None)
    if first is None:
        return None
    steps = trainer.over(tf.data.Dataset.from_tensors(first).repeat())
    for _ in range(2):  # the first call traces, the second refills what the first freed
        next(steps)
    return statistics.median(_until(steps, _SECONDS / 2))


def seconds_of_step(dataset: Any, trainer: Trainer, seconds: float = _SECONDS) -> tuple[int, float] | None:
    """Return the number of steps measured and their mean time.

    The first step of each epoch is left out, because that is when a shuffle fills its buffer.
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
            break  # the epoch has only one batch, so there is no wait to measure
    return (len(found), statistics.fmean(found)) if found else None


def _until(steps: Iterator[float], seconds: float) -> list[float]:
    """Run steps for `seconds` seconds, but at least the minimum number, and return their durations in seconds."""
    found: list[float] = []
    until = time.monotonic() + seconds
    for spent in steps:
        found.append(spent)
        if len(found) >= _MOST or (len(found) >= _FEWEST and time.monotonic() >= until):
            break
    return found


def _costs(dataset: Any, data: Data) -> tuple[StageCost, ...]:
    """Return the time per batch, in seconds, that each stage adds: the time through it minus the time before it.

    Stages are measured in turn, so that a moment in which the machine is busy is not attributed to a single stage.
    """
    datasets = linear(dataset)
    offset = len(data.stages) - len(datasets)
    # It is unknown how many elements from before this stage make up one batch.
    first = max((index for index, each in enumerate(datasets) if kind_of(each) in _MANY_OF_ONE), default=0)
    shortest = [math.inf] * len(datasets)
    for _ in range(_STAGE_ROUNDS):
        for index in range(first, len(datasets)):
            spent = _seconds_of_batch(datasets[index], _elements_of_batch(datasets[index + 1 :]))
            if spent is None:
                return ()
            shortest[index] = min(shortest[index], spent)
    costs, before = [], 0.0
    for index in range(first, len(datasets)):
        stage, spent = data.stages[index + offset], shortest[index]
        costs.append(StageCost(index + offset, stage.kind, max(0.0, spent - before), stage.place, stage.function))
        before = max(before, spent)
    return tuple(costs)


def _elements_of_batch(after: Sequence[Any]) -> int:
    """Return how many of a stage's elements make up one final batch."""
    return math.prod(size for each in after if (size := _batch_size(each)) is not None)


def _batch_size(dataset: Any) -> int | None:
    return static(TENSORFLOW.dataset_batch_size.get(dataset)) if kind_of(dataset) in ("batch", "padded_batch") else None


def _seconds_of_batch(dataset: Any, elements: int) -> float | None:
    """Measure the time, in seconds, that this many elements take in a TensorFlow loop.

    A Python loop would take longer than most stages.
    """
    number = elements
    while True:
        began = time.perf_counter()
        try:
            seen = int(dataset.take(number).reduce(np.int64(0), lambda count, *element: count + 1))
        except (tf.errors.OpError, TypeError, ValueError):
            return None
        spent = time.perf_counter() - began
        if seen < number or spent > _STAGE_SECONDS or number > _MOST_ELEMENTS:
            return spent / seen * elements if seen else None
        number *= 4


def changes_that_pay(dataset: Any, data: Data, trainer: Trainer, epochs: int) -> list[PipelineChange]:
    """Return the changes that make steps faster here, best first. Each is measured in alternation with the original.

    Args:
        dataset: the dataset passed to fit.
        data: the facts about the dataset.
        trainer: runs the training steps.
        epochs: the number of training epochs; a cache pays off only after the first.
    """
    datasets = linear(dataset)
    found = []
    for attempt in attempts_for(datasets, data, epochs):
        changed = _changed(datasets, attempt)
        if changed is None:
            continue
        times = _in_turns(dataset, changed, trainer, attempt.fills)
        if times is not None and times[0] / times[1] >= _PAYS:
            same = 0 if attempt.is_random else _same_batches(datasets, attempt)
            found.append(PipelineChange(attempt.line, attempt.place, times[0], times[1], same, attempt.note))
    return sorted(found, key=lambda change: -change.gain)


def _changed(datasets: Sequence[Any], attempt: CandidateChange) -> Any:
    """Return the changed pipeline, or None if the change is impossible or would alter the data."""
    try:
        if attempt.must_be_the_same and not _same_batches(datasets, attempt):
            return None
        return rebuilt(datasets, attempt.changes, attempt.last)
    except Exception:  # the user's function may not work on whole batches
        return None


def _in_turns(dataset: Any, changed: Any, trainer: Trainer, fills: bool) -> tuple[float, float] | None:
    """Return the seconds per step, unchanged and changed: for each, the lower of two interleaved measurements."""
    if fills:
        for _ in changed:
            pass
    before: list[float] = []
    after: list[float] = []
    for _ in range(2):
        for data, into in ((dataset, before), (changed, after)):
            found = seconds_of_step(data, trainer, _ROUND_SECONDS)
            if found is None:
                return None
            into.append(found[1])
    return min(before), min(after)


def _same_batches(datasets: Sequence[Any], attempt: CandidateChange) -> int:
    """Count the initial batches if all are identical with shuffles removed from both pipelines; return 0 otherwise."""
    plain: dict[int, Apply | None] = {
        index: None for index, each in enumerate(datasets) if index and kind_of(each) == "shuffle"
    }
    one = rebuilt(datasets, plain)
    other = rebuilt(datasets, {**plain, **attempt.changes}, attempt.last)
    pairs = zip(itertools.islice(one, _COMPARED_BATCHES), itertools.islice(other, _COMPARED_BATCHES), strict=True)
    are_equal = [
        bool(tf.reduce_all(tf.equal(a, b)))
        for first, second in pairs
        for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True)
    ]
    parts = len(tf.nest.flatten(datasets[-1].element_spec))
    return len(are_equal) // parts if all(are_equal) else 0


_SHARE_OF_MEMORY = 0.25
"""The share of free memory that a cache may use."""
_MOST_EPOCH_SECONDS = 20.0
_AUTOTUNE = "num_parallel_calls=tf.data.AUTOTUNE"


def attempts_for(datasets: Sequence[Any], data: Data, epochs: int) -> Iterator[CandidateChange]:
    """Yield every change worth trying.

    Args:
        datasets: the chain, as returned by `rebuilding.linear`.
        data: the facts about the chain.
        epochs: the number of training epochs; a cache pays off only after the first.
    """
    stages = data.stages[len(data.stages) - len(datasets) :]
    yield from _parallel(datasets, stages)
    yield from _interleaved(datasets, stages)
    yield from _of_batches(datasets, stages)
    yield from _cached(datasets, stages, epochs)
    yield from _prefetched(datasets)


class CandidateChange:
    """A change that may make the pipeline faster."""

    def __init__(self, line: str, place: str = "") -> None:
        self.line, self.place = line, place
        self.changes: dict[int, Apply | None] = {}
        self.last: list[Apply] = []
        self.is_random = False
        self.fills = False
        """True if the first epoch is not representative, because a cache is being filled."""
        self.note = ""
        self.must_be_the_same = False
        """True if the change must be rejected when any batch differs."""


_OF_ORDER = ("shuffle", "repeat", "prefetch")


def _parallel(datasets: Sequence[Any], stages: Sequence[Stage]) -> Iterator[CandidateChange]:
    """Yield a change that makes every serial map parallel."""
    serial = [index for index, stage in enumerate(stages) if stage.kind == "map" and not stage.is_parallel and index]
    serial = [index for index in serial if function_of(datasets[index]) is not None]
    if not serial:
        return
    names = [stages[index].function for index in serial]
    lines = [f".map({_name(name)}, {_AUTOTUNE})" for name in names]
    attempt = CandidateChange(
        " and ".join(dict.fromkeys(lines)), ", ".join(filter(None, (stages[i].place for i in serial)))
    )
    attempt.changes = {index: mapped(datasets[index], parallel=True) for index in serial}
    attempt.is_random = any(stages[index].is_random for index in serial)
    if attempt.is_random:
        attempt.note = "the map draws its random numbers in a different order"
    yield attempt


def _name(function: str) -> str:
    return "..." if function in ("", "<lambda>") else function


def _interleaved(datasets: Sequence[Any], stages: Sequence[Stage]) -> Iterator[CandidateChange]:
    """Yield a change that makes a serial interleave parallel, preserving the order."""
    for index, stage in enumerate(stages):
        if stage.kind == "interleave" and not stage.is_parallel and index:
            apply = interleaved(datasets[index])
            if apply is not None:
                attempt = CandidateChange(f".interleave({_name(stage.function)}, {_AUTOTUNE})", stage.place)
                attempt.changes = {index: apply}
                yield attempt


def _of_batches(datasets: Sequence[Any], stages: Sequence[Stage]) -> Iterator[CandidateChange]:
    """Yield a change that moves the last map after the batch; only valid if it treats each sample independently."""
    batch = next((index for index, stage in enumerate(stages) if stage.kind == "batch"), 0)
    index = batch - 1
    while index > 0 and stages[index].kind in _OF_ORDER:
        index -= 1
    if index < 1 or stages[index].kind != "map" or stages[index].is_random or stages[index].is_python:
        return
    apply, batched = mapped(datasets[index]), as_it_was(datasets[batch])
    if apply is None or batched is None:
        return
    attempt = CandidateChange(
        f".batch({stages[batch].batch}).map({_name(stages[index].function)})", stages[index].place
    )
    attempt.changes = {index: None, batch: _one_after_the_other(batched, apply)}
    attempt.must_be_the_same, attempt.note = True, "with the map after the batch"
    yield attempt


def _one_after_the_other(first: Apply, second: Apply) -> Apply:
    return lambda before: second(first(before))


def _cached(datasets: Sequence[Any], stages: Sequence[Stage], epochs: int) -> Iterator[CandidateChange]:
    """Yield a change that adds a cache after the last stage that yields the same elements in each epoch."""
    last = 0
    for index, stage in enumerate(stages):
        if stage.is_random or stage.is_python or stage.kind in ("shuffle", "repeat", "cache", "batch", "prefetch"):
            break
        last = index
    if epochs < 2 or last == 0 or any(stage.kind == "cache" for stage in stages) or not _fits(datasets[last]):
        return
    attempt = CandidateChange(".cache()", stages[last].place)
    behind = mapped(datasets[last]) if stages[last].kind == "map" else None
    if behind is None:
        return
    attempt.changes = {last: lambda before: behind(before).cache()}
    attempt.fills, attempt.note = True, "only from the second epoch on, with the elements kept in memory"
    yield attempt


def _fits(dataset: Any) -> bool:
    """True if all elements fit into a share of the free memory and can be read quickly."""
    count = int(dataset.cardinality())
    if count <= 0 or count == ENDLESS:
        return False
    began, size, number = time.monotonic(), 0, 0
    for element in itertools.islice(dataset, 20):
        size += sum(part.dtype.size * math.prod(part.shape) for part in tf.nest.flatten(element) if part.dtype.size)
        number += 1
    spent = time.monotonic() - began
    fits = size / number * count < _SHARE_OF_MEMORY * psutil.virtual_memory().available
    return fits and spent / number * count < _MOST_EPOCH_SECONDS


def _prefetched(datasets: Sequence[Any]) -> Iterator[CandidateChange]:
    if any(kind_of(each) == "prefetch" for each in datasets):
        return
    attempt = CandidateChange(".prefetch(tf.data.AUTOTUNE)")
    attempt.last = [lambda before: before.prefetch(tf.data.AUTOTUNE)]
    yield attempt
