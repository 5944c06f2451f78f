"""The datasets that a tf.data pipeline consists of, and their constant arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_BEFORE_A_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def chain(dataset: Any) -> list[Any]:
    """The datasets that a pipeline is made from, source first, ending with the pipeline itself."""
    found: list[Any] = []
    _collect(dataset, found, set())
    return found


def _collect(dataset: Any, found: list[Any], seen: set[int]) -> None:
    if id(dataset) in seen or len(found) > 500:
        return
    seen.add(id(dataset))
    for before in TENSORFLOW.dataset_inputs.call(dataset) if TENSORFLOW.dataset_inputs.on(dataset) else ():
        _collect(before, found, seen)
    found.append(dataset)


def kind_of(dataset: Any) -> str:
    """The kind of a dataset by its class: "map" for a _ParallelMapDataset."""
    name = re.sub(r"(Dataset)?(V\d)?$", "", type(dataset).__name__.lstrip("_"))
    return _BEFORE_A_WORD.sub("_", name).lower().removeprefix("parallel_")


def functions_of(dataset: Any) -> Iterator[Any]:
    """The concrete functions of one dataset: those of a map, a filter, an interleave."""
    for wrapper in TENSORFLOW.dataset_functions.call(dataset) if TENSORFLOW.dataset_functions.on(dataset) else ():
        function = getattr(wrapper, "function", None)
        if function is not None:
            yield function


def static(tensor: Any) -> int | None:
    """The value of a dataset's constant argument; None if it is not a known number."""
    try:
        value = tf.get_static_value(tensor) if tensor is not None else None
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
