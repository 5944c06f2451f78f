"""Builds a tf.data pipeline again with one change, by the same public methods that the user called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from oomph.tensorflow.checking.stages import chain, kind_of, static
from oomph.tensorflow.names.tensorflow2 import TENSORFLOW

Apply = Callable[[Any], Any]
"""Makes the next dataset from the one before."""


def linear(dataset: Any) -> list[Any]:
    """The last part of the chain in which every dataset has one input; its first dataset is a source of any kind."""
    found: list[Any] = []
    for each in reversed(chain(dataset)):
        if found and TENSORFLOW.dataset_inputs.call(found[0]) != [each]:
            break
        found.insert(0, each)
    return found


def rebuilt(datasets: Sequence[Any], changes: Mapping[int, Apply | None], last: Sequence[Apply] = ()) -> Any:
    """The last dataset of a chain, made again; None if one of its stages is of a kind that is not known.

    Args:
        datasets: as `linear` returns them; the first is used as it is.
        changes: for some stages, by their index, what to do instead; None leaves the stage out.
        last: what to do after the last stage.
    """
    made = datasets[0]
    for index, dataset in enumerate(datasets[1:], 1):
        apply = changes[index] if index in changes else as_it_was(dataset)
        if apply is None and index not in changes:
            return None
        made = made if apply is None else apply(made)
    for apply in last:
        made = apply(made)
    return made


def as_it_was(dataset: Any) -> Apply | None:
    """The call that made this dataset from its input; None for a kind that is not known."""
    known = _KNOWN.get(kind_of(dataset))
    return None if known is None else known(dataset)


def mapped(dataset: Any, parallel: bool | None = None) -> Apply | None:
    """A map with the same function, parallel or as it was."""
    function = function_of(dataset)
    if function is None:
        return None
    calls: Any = TENSORFLOW.parallel_calls.get(dataset)
    if parallel or (parallel is None and calls is not None):
        return lambda before: before.map(function, num_parallel_calls=tf.data.AUTOTUNE)
    return lambda before: before.map(function)


def function_of(dataset: Any) -> Any:
    """The Python function of a map or a filter."""
    wrapper = TENSORFLOW.map_function.get(dataset) or TENSORFLOW.filter_predicate.get(dataset)
    return TENSORFLOW.structured_function.get(wrapper)


def _batched(dataset: Any) -> Apply | None:
    size = static(TENSORFLOW.dataset_batch_size.get(dataset))
    drops = bool(static(TENSORFLOW.drop_remainder.get(dataset)))
    return None if size is None else lambda before: before.batch(size, drop_remainder=drops)


def _shuffled(dataset: Any) -> Apply | None:
    size = static(TENSORFLOW.buffer_size.get(dataset))
    reshuffles = TENSORFLOW.reshuffles.get(dataset)
    return None if size is None else lambda before: before.shuffle(size, reshuffle_each_iteration=reshuffles)


def _counted(name: str) -> Callable[[Any], Apply | None]:
    def known(dataset: Any) -> Apply | None:
        count = static(TENSORFLOW.dataset_count.get(dataset))
        return None if count is None else lambda before: getattr(before, name)(count)

    return known


def _filtered(dataset: Any) -> Apply | None:
    function = function_of(dataset)
    return None if function is None else lambda before: before.filter(function)


def _prefetched(dataset: Any) -> Apply | None:
    size = static(TENSORFLOW.buffer_size.get(dataset))
    return None if size is None else lambda before: before.prefetch(size)


def _cached(dataset: Any) -> Apply | None:
    return None if static(TENSORFLOW.cache_file.get(dataset)) else lambda before: before.cache()


_KNOWN: dict[str, Callable[[Any], Apply | None]] = {
    "map": mapped,
    "batch": _batched,
    "shuffle": _shuffled,
    "repeat": _counted("repeat"),
    "take": _counted("take"),
    "skip": _counted("skip"),
    "filter": _filtered,
    "prefetch": _prefetched,
    "cache": _cached,
    "options": lambda dataset: lambda before: before.with_options(dataset.options()),
}
