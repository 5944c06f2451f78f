"""Finds the file or element at which a pipeline fails, which TensorFlow's own errors do not name."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from oomph.tensorflow.checking.rebuilding import function_of, linear
from oomph.tensorflow.names.tensorflow2 import TENSORFLOW

_SECONDS = 20.0
_MOST_CHARACTERS = 200


def failing_record(dataset: Any) -> str:
    """The first file or element at which a stage fails, in words; empty if none was found in time."""
    until = time.monotonic() + _SECONDS
    datasets = linear(dataset)
    for name, records in _files_of(datasets[0]):
        number = _failing_number(records, until)
        if number is not None:
            return f"{name}, record {number}"
    for before, after in itertools.pairwise(datasets):
        function = function_of(after)
        found = _failing_element(before, function, until) if function is not None else ""
        if found:
            return found
    return ""


def _files_of(source: Any) -> Iterator[tuple[str, Any]]:
    """Each file of a source that reads files, as a dataset of its own."""
    names = TENSORFLOW.dataset_files.get(source)
    if names is None or "TFRecord" not in type(source).__name__:
        return
    for name in tf.data.Dataset.from_tensor_slices(names) if tf.is_tensor(names) else names:
        yield _text(name), tf.data.TFRecordDataset(name)


def _failing_number(records: Any, until: float) -> int | None:
    """The number of the record, counted from 1, with which reading fails; None if all can be read."""
    number = 1
    try:
        for _ in records:
            number += 1
            if time.monotonic() > until:
                return None
    except tf.errors.OpError:
        return number
    return None


def _failing_element(before: Any, function: Any, until: float) -> str:
    number = 0
    try:
        for element in before:
            number += 1
            if time.monotonic() > until:
                return ""
            try:
                made = function(*element) if isinstance(element, tuple) else function(element)
                record = _failing_number(made, until) if isinstance(made, tf.data.Dataset) else None
            except Exception as error:  # the user's function may raise anything
                return f"{_in_words(element, number)} ({type(error).__name__})"
            if record is not None:
                return f"{_in_words(element, number)}, record {record}"
    except tf.errors.OpError:
        return ""  # an earlier stage fails
    return ""


def _in_words(element: Any, number: int) -> str:
    """The name of a file where the element holds one."""
    texts = [
        part for part in tf.nest.flatten(element) if getattr(part, "dtype", None) == tf.string and part.shape.rank == 0
    ]
    named = next((text for part in texts if "/" in (text := _text(part)) or "." in text), "")
    return named or f"element {number}"


def _text(value: Any) -> str:
    raw = value.numpy() if hasattr(value, "numpy") else value
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    return text[:_MOST_CHARACTERS]
