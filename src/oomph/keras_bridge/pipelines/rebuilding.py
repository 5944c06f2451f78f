"""Rebuilds a tf.data pipeline with a single change, using the same public methods that the user called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import chain, kind_of, shuffles, static

Apply = Callable[[Any], Any]
"""A function that creates the next dataset in a pipeline from the previous one."""


def linear(dataset: Any) -> list[Any]:
    """Return a pipeline's last datasets, as far back as each has a single input; the first may be any source."""
    found: list[Any] = []
    for each in reversed(chain(dataset)):
        if found and TENSORFLOW.dataset_inputs.call(found[0]) != [each]:
            break
        found.insert(0, each)
    return found


def rebuilt(datasets: Sequence[Any], changes: Mapping[int, Apply | None], last: Sequence[Apply] = ()) -> Any:
    """Rebuild a chain and return its last dataset, or None if a stage is of an unknown kind.

    Args:
        datasets: the datasets as returned by `linear`; the first is used unchanged.
        changes: replacements for stages, by index; None leaves the stage out.
        last: stages to append.
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


def in_any_order(dataset: Any) -> Any:
    """Build a dataset that yields every element once, in any order, or return None if that is impossible.

    Iterating over the original would advance it: its shuffles would use up their orders.
    """
    datasets = linear(dataset)
    first = 0
    changes: dict[int, Apply | None] = {}
    for index, each in enumerate(datasets):
        if kind_of(each) in _OF_ORDER:
            changes[index] = None
        elif kind_of(each) in ("interleave", "flat_map") and function_of(each) is not None:
            changes[index] = _flattened(function_of(each))
        elif as_it_was(each) is None:
            first = index
    if shuffles(datasets[first]):
        return None
    return rebuilt(datasets[first:], {index - first: each for index, each in changes.items() if index > first})


def _flattened(function: Any) -> Apply:
    return lambda before: before.flat_map(function)


def as_it_was(dataset: Any) -> Apply | None:
    """Return the call that created this dataset from its input, or None if the kind is unknown."""
    known = _KNOWN.get(kind_of(dataset))
    return None if known is None else known(dataset)


def mapped(dataset: Any, parallel: bool | None = None) -> Apply | None:
    """Return the call that recreates this map, parallel or not (by default, as before)."""
    function = function_of(dataset)
    if function is None:
        return None
    calls: Any = TENSORFLOW.parallel_calls.get(dataset)
    if parallel or (parallel is None and calls is not None):
        return lambda before: before.map(function, num_parallel_calls=tf.data.AUTOTUNE)
    return lambda before: before.map(function)


def interleaved(dataset: Any, parallel: bool = True) -> Apply | None:
    """Return the call that recreates this interleave in the same order, parallel or not, or None if unknown."""
    function, cycle = function_of(dataset), static(TENSORFLOW.cycle_length.get(dataset))
    block = static(TENSORFLOW.block_length.get(dataset))
    if function is None or cycle is None or block is None:
        return None
    calls = tf.data.AUTOTUNE if parallel else None
    return lambda before: before.interleave(function, cycle, block, num_parallel_calls=calls)


def _interleaved(dataset: Any) -> Apply | None:
    return interleaved(dataset, TENSORFLOW.parallel_calls.get(dataset) is not None)


def function_of(dataset: Any) -> Any:
    """Return the Python function that a map or filter calls."""
    wrapper = TENSORFLOW.map_function.get(dataset) or TENSORFLOW.filter_predicate.get(dataset)
    return TENSORFLOW.structured_function.get(wrapper)


def batched(dataset: Any) -> Apply | None:
    """Return the call that creates batches of the same size."""
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


_OF_ORDER = ("shuffle", "repeat", "prefetch", "cache")
_KNOWN: dict[str, Callable[[Any], Apply | None]] = {
    "map": mapped,
    "interleave": _interleaved,
    "batch": batched,
    "shuffle": _shuffled,
    "repeat": _counted("repeat"),
    "take": _counted("take"),
    "skip": _counted("skip"),
    "filter": _filtered,
    "prefetch": _prefetched,
    "cache": _cached,
    "ignore_errors": lambda dataset: lambda before: before.ignore_errors(),
    "options": lambda dataset: lambda before: before.with_options(dataset.options()),
}
