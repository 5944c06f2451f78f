"""Finds the changes of a pipeline that pay: applies each, and measures it interleaved with the unchanged pipeline."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psutil
import tensorflow as tf

from oomph.preflight.facts.data import ENDLESS, Data, Stage
from oomph.preflight.facts.pipeline import Change
from oomph.tensorflow.checking.rebuilding import Apply, function_of, linear, mapped, rebuilt
from oomph.tensorflow.checking.stages import kind_of
from oomph.tensorflow.checking.waiting import Step, trained_on

_SECONDS = 1.25
"""For each measurement; there are two of either pipeline."""
_PAYS = 1.1
"""A change is kept if steps are faster by this factor; two runs of the same pipeline differ by less."""
_COMPARED_BATCHES = 5
_SHARE_OF_MEMORY = 0.25
"""A cache may take this share of the free memory."""
_MOST_EPOCH_SECONDS = 20.0
_AUTOTUNE = "num_parallel_calls=tf.data.AUTOTUNE"


def changes_that_pay(dataset: Any, data: Data, step: Step, epochs: int) -> list[Change]:
    """The changes that make steps faster here, best first; each is measured interleaved with the unchanged pipeline.

    Args:
        dataset: what fit was given.
        data: what is known of it.
        step: trains on one batch.
        epochs: of the training; a cache pays from the second one on.
    """
    datasets = linear(dataset)
    offset = len(data.stages) - len(datasets)
    found = []
    for attempt in (*_parallel(datasets, data.stages[offset:]), *_cache(datasets, data, epochs), *_prefetch(datasets)):
        changed = rebuilt(datasets, attempt.changes, attempt.last)
        if changed is None:
            continue
        times = _in_turns(dataset, changed, step, attempt.fills)
        if times is not None and times[0] / times[1] >= _PAYS:
            same = None if attempt.is_random else _same_batches(datasets, attempt)
            found.append(Change(attempt.line, attempt.place, times[0], times[1], same, attempt.note))
    return sorted(found, key=lambda change: -change.gain)


class _Attempt:
    """A change to try."""

    def __init__(self, line: str, place: str = "") -> None:
        self.line, self.place = line, place
        self.changes: dict[int, Apply | None] = {}
        self.last: list[Apply] = []
        self.is_random = False
        self.fills = False
        """Whether the first epoch is not representative."""
        self.note = ""


def _parallel(datasets: Sequence[Any], stages: Sequence[Stage]) -> Iterator[_Attempt]:
    """Every map that is not parallel, parallel."""
    serial = [index for index, stage in enumerate(stages) if stage.kind == "map" and not stage.is_parallel and index]
    serial = [index for index in serial if function_of(datasets[index]) is not None]
    if not serial:
        return
    names = [stages[index].function for index in serial]
    lines = [f".map({_name(name)}, {_AUTOTUNE})" for name in names]
    attempt = _Attempt(" and ".join(dict.fromkeys(lines)), ", ".join(filter(None, (stages[i].place for i in serial))))
    attempt.changes = {index: mapped(datasets[index], parallel=True) for index in serial}
    attempt.is_random = any(stages[index].is_random for index in serial)
    if attempt.is_random:
        attempt.note = "the random numbers of the map are drawn in another order"
    yield attempt


def _name(function: str) -> str:
    return "..." if function in ("", "<lambda>") else function


def _cache(datasets: Sequence[Any], data: Data, epochs: int) -> Iterator[_Attempt]:
    """A cache behind the last stage whose elements are the same in each epoch."""
    stages = data.stages[len(data.stages) - len(datasets) :]
    last = 0
    for index, stage in enumerate(stages):
        if stage.is_random or stage.is_python or stage.kind in ("shuffle", "repeat", "cache", "batch", "prefetch"):
            break
        last = index
    if epochs < 2 or last == 0 or any(stage.kind == "cache" for stage in stages) or not _fits(datasets[last]):
        return
    attempt = _Attempt(".cache()", stages[last].place)
    behind = mapped(datasets[last]) if stages[last].kind == "map" else None
    if behind is None:
        return
    attempt.changes = {last: lambda before: behind(before).cache()}
    attempt.fills, attempt.note = True, "from the second epoch on; the elements stay in memory"
    yield attempt


def _fits(dataset: Any) -> bool:
    """Whether all elements fit into a share of the free memory, and can be read in a short time."""
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


def _prefetch(datasets: Sequence[Any]) -> Iterator[_Attempt]:
    if any(kind_of(each) == "prefetch" for each in datasets):
        return
    attempt = _Attempt(".prefetch(tf.data.AUTOTUNE)")
    attempt.last = [lambda before: before.prefetch(tf.data.AUTOTUNE)]
    yield attempt


def _in_turns(dataset: Any, changed: Any, step: Step, fills: bool) -> tuple[float, float] | None:
    """Seconds of a step with either pipeline: the smaller of two interleaved measurements each."""
    if fills:
        for _ in changed:
            pass
    before: list[float] = []
    after: list[float] = []
    for _ in range(2):
        for data, into in ((dataset, before), (changed, after)):
            found = trained_on(data, step, _SECONDS)
            if found is None:
                return None
            into.append(found[1] + found[2])
    return min(before), min(after)


def _same_batches(datasets: Sequence[Any], attempt: _Attempt) -> bool:
    """Whether the first batches are the same, element by element, with shuffles left out on both sides."""
    plain: dict[int, Apply | None] = {
        index: None for index, each in enumerate(datasets) if index and kind_of(each) == "shuffle"
    }
    one = rebuilt(datasets, plain)
    other = rebuilt(datasets, {**plain, **attempt.changes}, attempt.last)
    pairs = zip(itertools.islice(one, _COMPARED_BATCHES), itertools.islice(other, _COMPARED_BATCHES), strict=True)
    return all(
        bool(tf.reduce_all(tf.equal(a, b)))
        for first, second in pairs
        for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True)
    )
