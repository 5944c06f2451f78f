"""The number of elements in a pipeline if none fails. TensorFlow does not know it, once errors are ignored."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.chains import chain, kind_of
from oomph.keras_bridge.pipelines.rebuilding import Apply, as_it_was, batched

_UNKNOWN = int(tf.data.UNKNOWN_CARDINALITY)
_OF_SAME_LENGTH = ("map", "shuffle", "prefetch", "cache", "options", "ignore_errors", "enumerate")
_COUNTING = ("take", "skip", "repeat")


def length(dataset: Any, ignoring: Container[Any]) -> int:
    """The number of elements in a pipeline, or tf.data's INFINITE_CARDINALITY or UNKNOWN_CARDINALITY.

    No function is traced, and no seed is drawn.

    Args:
        dataset: the pipeline.
        ignoring: the datasets that skip failing elements.
    """
    if not any(each in ignoring for each in chain(dataset)):
        return _cardinality(dataset)
    lengths = [length(each, ignoring) for each in TENSORFLOW.dataset_inputs.call(dataset)]
    kind = kind_of(dataset)
    if kind in _OF_SAME_LENGTH and len(lengths) == 1:
        return lengths[0]
    if kind in ("batch", "padded_batch"):
        return _counted(batched(dataset), lengths[0])
    if kind in _COUNTING:
        return _counted(as_it_was(dataset), lengths[0])
    parts = [_of_length(each) for each in lengths]
    if kind == "zip" and None not in parts:
        return _cardinality(tf.data.Dataset.zip(tuple(parts)))
    if kind == "concatenate" and None not in parts:
        return _cardinality(parts[0].concatenate(parts[1]))
    return _UNKNOWN


def _counted(apply: Apply | None, before: int) -> int:
    """The number of elements after a stage that depends only on the stage's arguments and the `before` elements."""
    numbers = _of_length(before)
    return _UNKNOWN if apply is None or numbers is None else _cardinality(apply(numbers))


def _cardinality(dataset: Any) -> int:
    return int(dataset.cardinality())


def _of_length(size: int) -> Any:
    """A dataset of `size` numbers; None if the size is unknown."""
    if size == tf.data.INFINITE_CARDINALITY:
        return tf.data.Dataset.range(1).repeat()
    return None if size == _UNKNOWN else tf.data.Dataset.range(size)
