"""Finds the changes of a pipeline that pay: applies each, and measures it interleaved with the unchanged pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.pipelines.chains import kind_of
from oomph.keras_bridge.pipelines.rebuilding import Apply, linear, rebuilt
from oomph.preflight.facts.data import Data
from oomph.preflight.facts.pipeline import Change
from oomph.preflight.live.pipeline_attempts import Attempt, attempts_for
from oomph.preflight.live.waiting import Trainer, seconds_of_step

_SECONDS = 1.25
"""For each measurement; there are two of either pipeline."""
_PAYS = 1.1
"""A change is kept if steps are faster by this factor; two runs of the same pipeline differ by less."""
_COMPARED_BATCHES = 5


def changes_that_pay(dataset: Any, data: Data, trainer: Trainer, epochs: int) -> list[Change]:
    """The changes that make steps faster here, best first; each is measured interleaved with the unchanged pipeline.

    Args:
        dataset: what fit was given.
        data: what is known of it.
        trainer: trains on it.
        epochs: of the training; a cache pays from the second one on.
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
            found.append(Change(attempt.line, attempt.place, times[0], times[1], same, attempt.note))
    return sorted(found, key=lambda change: -change.gain)


def _changed(datasets: Sequence[Any], attempt: Attempt) -> Any:
    """The pipeline with the change; None if it cannot be made, or would be another pipeline."""
    try:
        if attempt.must_be_the_same and not _same_batches(datasets, attempt):
            return None
        return rebuilt(datasets, attempt.changes, attempt.last)
    except Exception:  # the user's function may not work on whole batches
        return None


def _in_turns(dataset: Any, changed: Any, trainer: Trainer, fills: bool) -> tuple[float, float] | None:
    """Seconds of a step with either pipeline: the smaller of two interleaved measurements each."""
    if fills:
        for _ in changed:
            pass
    before: list[float] = []
    after: list[float] = []
    for _ in range(2):
        for data, into in ((dataset, before), (changed, after)):
            found = seconds_of_step(data, trainer, _SECONDS)
            if found is None:
                return None
            into.append(found[1])
    return min(before), min(after)


def _same_batches(datasets: Sequence[Any], attempt: Attempt) -> int:
    """How many first batches are the same, element by element, without shuffles on both sides; 0 if one is not."""
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
