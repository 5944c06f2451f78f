"""A pipeline's elements: how many there are if none fails, and which files and elements make it fail.

Once errors are ignored, TensorFlow does not know the number of elements, and its own errors do not name the failing
one.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Iterator
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import chain, kind_of
from oomph.keras_bridge.pipelines.rebuilding import Apply, as_it_was, batched, function_of, in_any_order

_UNKNOWN = int(tf.data.UNKNOWN_CARDINALITY)
_OF_SAME_LENGTH = ("map", "shuffle", "prefetch", "cache", "options", "ignore_errors", "enumerate")
_COUNTING = ("take", "skip", "repeat")


def length(dataset: Any, ignoring: Container[Any]) -> int:
    """Return the number of elements in a pipeline, or tf.data's INFINITE_CARDINALITY or UNKNOWN_CARDINALITY.

    No functions are traced and no seeds are drawn.

    Args:
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
    """Return how many elements a stage outputs, which depends only on its arguments and its input count `before`."""
    numbers = _of_length(before)
    return _UNKNOWN if apply is None or numbers is None else _cardinality(apply(numbers))


def _cardinality(dataset: Any) -> int:
    return int(dataset.cardinality())


def _of_length(size: int) -> Any:
    """Create a dataset of `size` numbers, or return None if the size is unknown."""
    if size == tf.data.INFINITE_CARDINALITY:
        return tf.data.Dataset.range(1).repeat()
    return None if size == _UNKNOWN else tf.data.Dataset.range(size)


_MOST_CHARACTERS = 200


def corrupt_records(stages: Iterable[Any], seconds: float) -> Iterator[str]:
    """Describe each file, record or element that makes one of the stages fail, as far as time allows.

    Reads the stages' input again, in any order, without changing the state of their datasets.
    """
    until = time.time() + seconds
    for stage in stages:
        for name, records in _files_of(stage):
            number = _failing_number(records, until)
            if number is not None:
                yield f"{name}, starting at record {number}"
        function, inputs = function_of(stage), TENSORFLOW.dataset_inputs.call(stage)
        before = in_any_order(inputs[0]) if function is not None and len(inputs) == 1 else None
        if before is not None:
            search = _failing_readings if kind_of(stage) in ("interleave", "flat_map") else _failing_elements
            yield from search(before, function, until)


def _files_of(source: Any) -> Iterator[tuple[str, Any]]:
    """Yield each file that a source reads, paired with a dataset that reads only that file."""
    names = TENSORFLOW.dataset_files.get(source)
    if names is None or "TFRecord" not in type(source).__name__:
        return
    for name in tf.data.Dataset.from_tensor_slices(names) if tf.is_tensor(names) else names:
        yield _text(name), tf.data.TFRecordDataset(name)


def _failing_number(records: Any, until: float) -> int | None:
    """Return the number of the first unreadable record, counted from 1, or None if none is found in time."""
    number = 1
    try:
        for _ in records:
            number += 1
            if time.time() > until:
                return None
    except tf.errors.OpError:
        return number
    return None


def _failing_elements(before: Any, function: Any, until: float) -> Iterator[str]:
    """Describe the elements of `before` for which the user's function raises an error."""
    try:
        for number, element in _tried(before, function, until):
            yield _in_words(element, int(number))
    except (tf.errors.OpError, TypeError, ValueError):
        return  # an earlier stage fails, or the function cannot be traced here


def _tried(before: Any, function: Any, until: float) -> Any:
    """Build a dataset of the elements for which the function raises an error, each paired with its number.

    Each element is mapped in its own dataset, in parallel and inside TensorFlow.
    """

    def tried(number: Any, element: Any) -> Any:
        passed = tf.data.Dataset.from_tensors(element).map(function).map(lambda *_: False).ignore_errors()
        failed = passed.concatenate(tf.data.Dataset.from_tensors(True)).take(1)
        return tf.data.Dataset.zip((tf.data.Dataset.from_tensors((number, element)), failed))

    each = before.enumerate(1).interleave(tried, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    in_time = each.take_while(lambda *_: tf.timestamp() < until)
    return in_time.filter(lambda _, failed: failed).map(lambda element, _: element)


def _failing_readings(before: Any, function: Any, until: float) -> Iterator[str]:
    """Describe the elements, such as files, that the user's function turns into failing datasets, and bad records."""
    try:
        for number, element in enumerate(before, 1):
            if time.time() > until:
                return
            records = function(*element) if isinstance(element, tuple) else function(element)
            failing = _failing_number(records, until)
            if failing is not None:
                yield f"{_in_words(element, number)}, starting at record {failing}"
    except Exception:  # an earlier stage fails; the user's function may raise anything
        return


def _in_words(element: Any, number: int) -> str:
    """Return the file name in an element, or the element's number."""
    texts = [
        part for part in tf.nest.flatten(element) if getattr(part, "dtype", None) == tf.string and part.shape.rank == 0
    ]
    named = next((text for part in texts if "/" in (text := _text(part)) or "." in text), "")
    return named or f"element {number}"


def _text(value: Any) -> str:
    raw = value.numpy() if hasattr(value, "numpy") else value
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    return text[:_MOST_CHARACTERS]
