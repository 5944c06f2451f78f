"""Makes a pipeline safe to examine: its buffers fill quickly, and nothing is written to disk.

Buffers that are too large are shrunk in the pipeline's graph, which TensorFlow itself writes and reads. All stages,
functions and variables stay unchanged.
"""

from __future__ import annotations

import itertools
import math
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import chain, functions_of, kind_of, static
from oomph.keras_bridge.pipelines.rebuilding import Apply, linear, rebuilt
from oomph.planning.data_buffers import CACHE, PREFETCH, SHUFFLE, DataBuffer, Room
from oomph.process.available_memory import available_bytes, total_bytes

_MOST_MEASURED, _MEASURING_SECONDS = 32, 1.0
"""The maximum number of elements to read, and of seconds to spend, when measuring one stage."""
_MANY = 1000
"""The number of elements below which a buffer is assumed to fill quickly."""
_OF_TEXT = 24
"""The size in bytes of a string, in addition to its characters."""
_SHARE_OF_FREE, _MOST_BYTES = 0.25, 4 << 30
"""The share of free memory, and the size in bytes, above which a pipeline's buffers are shrunk."""
_MOST_SECONDS = 20.0
"""The time to fill a pipeline's buffers, in seconds, above which they are shrunk."""
_SMALL_BYTES, _SMALL_SECONDS, _SMALL_ELEMENTS = 128 << 20, 2.0, 1000
"""The limits of a buffer after shrinking: bytes, seconds to fill, elements."""
_MOST_COPIED = 256 << 20
"""The maximum size in bytes of the source arrays in a pipeline's graph; a graph with more is not written."""
_SNAPSHOT = "snapshot"
_WARN = 1
"""The option that makes DatasetToGraph only warn about state."""


@dataclass(frozen=True)
class Filling:
    """One buffer of a pipeline, and the time it takes to produce an element for it."""

    buffer: DataBuffer
    declared: int
    """The declared size of the buffer, in elements; negative for all elements."""
    seconds: float
    """The time, in seconds, to produce one element; 0 if not measured."""


def fillings_of(dataset: Any, readable: Callable[[Any], Any]) -> tuple[Filling, ...]:
    """Return the buffers of a dataset's shuffles, caches and fixed-size prefetches, source first.

    Args:
        dataset: the pipeline.
        readable: creates a version of a dataset that can be read with little memory, or returns None.
    """
    return tuple(filling for each in chain(dataset) for filling in _filling(each, readable))


def _filling(dataset: Any, readable: Callable[[Any], Any]) -> Iterator[Filling]:
    kind, declared = kind_of(dataset), declared_size(dataset)
    if kind not in (SHUFFLE, CACHE, PREFETCH) or declared is None:
        return
    (before,) = TENSORFLOW.dataset_inputs.call(dataset)
    elements = _at_most(declared, int(before.cardinality()))
    size = _static_bytes(before.element_spec)
    measured, seconds = (size, 0.0) if _is_small(size, elements) else _measured_size(readable(before))
    file = _text(TENSORFLOW.cache_file.get(dataset)) if kind == CACHE else ""
    yield Filling(DataBuffer(kind, elements, size or measured, file), declared, seconds)


def declared_size(dataset: Any) -> int | None:
    """Return the declared size of a stage's buffer in elements: negative for all, None if tf.data chooses it."""
    if kind_of(dataset) == CACHE:
        return -1
    size = static(TENSORFLOW.buffer_size.get(dataset))
    return None if size is not None and kind_of(dataset) == PREFETCH and size < 2 else size


def _text(name: Any) -> str:
    value = tf.get_static_value(name) if name is not None else None
    return os.fsdecode(value) if isinstance(value, (bytes, str)) else ""


def _at_most(declared: int, count: int) -> int | None:
    """Return the number of elements in a full buffer of this declared size over `count` elements; None if unknown."""
    known = [number for number in (declared, count) if number >= 0]
    return min(known, default=None)


def _is_small(size: int | None, elements: int | None) -> bool:
    """True if the buffer needs no measuring: the size of its elements is known, and it fills quickly."""
    return size is not None and elements is not None and elements < _MANY


def _static_bytes(specification: Any) -> int | None:
    """Return the size in bytes of any element, from shapes and dtypes, or None if elements may differ in size."""
    parts: Sequence[Any] = tf.nest.flatten(specification)
    if not all(isinstance(part, tf.TensorSpec) and part.shape.is_fully_defined() for part in parts):
        return None
    if any(part.dtype == tf.string or not part.dtype.size for part in parts):
        return None
    return sum(int(math.prod(part.shape)) * int(part.dtype.size) for part in parts)


def _measured_size(source: Any) -> tuple[int | None, float]:
    """Return the mean size of the first elements, in bytes, and the seconds to produce one; None and 0 if unknown."""
    if source is None:
        return None, 0.0
    sizes: list[int] = []
    until, began, spent = time.monotonic() + _MEASURING_SECONDS, 0.0, 0.0
    try:
        for element in itertools.islice(source, _MOST_MEASURED):
            now = time.monotonic()
            began, spent = (now, 0.0) if not sizes else (began, now - began)
            sizes.append(bytes_of_element(element))
            if now > until:
                break
    except Exception:  # the user's data may raise anything; the actual reading will report it
        pass
    if not sizes:
        return None, 0.0
    return sum(sizes) // len(sizes), spent / (len(sizes) - 1) if len(sizes) > 1 else 0.0


def bytes_of_element(element: Any) -> int:
    """Return the size in bytes of all tensors in an element."""
    return sum(map(_bytes_of_tensor, tf.nest.flatten(element, expand_composites=True)))


def _bytes_of_tensor(part: Any) -> int:
    if getattr(part, "dtype", None) == tf.string:
        return int(tf.reduce_sum(tf.strings.length(part))) + _OF_TEXT * int(tf.size(part))
    return int(math.prod(part.shape)) * int(part.dtype.size or 0)


@dataclass(frozen=True)
class ReadableDataset:
    """A pipeline in a form that is safe for an examiner to read."""

    dataset: Any
    """The pipeline, or a version with smaller buffers; None if it must not be read and has no such version."""
    buffers: tuple[DataBuffer, ...] = ()
    """The buffers of the original pipeline."""
    is_changed: bool = False
    """True if `dataset` is not the original pipeline."""
    mixes_less: bool = False
    """True if a shuffle was shrunk, so that the first elements are from the start of the data."""


_KNOWN: weakref.WeakKeyDictionary[Any, ReadableDataset] = weakref.WeakKeyDictionary()


def readable(dataset: Any) -> ReadableDataset:
    """Return the pipeline in a form that is safe to read. It is created only once per pipeline."""
    known = _KNOWN.get(dataset)
    if known is None:
        known = _KNOWN[dataset] = _readable(dataset)
    return known if known.dataset is not None or known.is_changed else ReadableDataset(dataset, known.buffers)


def _readable(dataset: Any) -> ReadableDataset:
    """Return the readable form, in which None represents an unchanged pipeline: a reference would keep it alive."""
    fillings = fillings_of(dataset, lambda each: readable(each).dataset)
    buffers = tuple(filling.buffer for filling in fillings)
    is_large, writes = _are_large(fillings), _writes(dataset, buffers)
    if not is_large and not writes:
        return ReadableDataset(None, buffers)
    sizes = {filling.declared: _small(filling) for filling in fillings if filling.buffer.kind != CACHE}
    made = _made_smaller(dataset, sizes if is_large else {})
    return ReadableDataset(made, buffers, True, is_large and any(buffer.kind == SHUFFLE for buffer in buffers))


def room_for(buffers: Sequence[DataBuffer]) -> Room:
    """Return the memory and disk space that this machine has for these buffers."""
    file = next((buffer.file for buffer in buffers if buffer.file), "")
    return Room(total_bytes(), _free_disk(file) if file else None)


def _free_disk(file: str) -> int | None:
    try:
        found = os.statvfs(os.path.dirname(os.path.abspath(file)))
    except OSError:
        return None  # the folder does not exist yet
    return found.f_bavail * found.f_frsize


def _are_large(fillings: Sequence[Filling]) -> bool:
    """True if the buffers need a lot of memory, or a long time to fill before the first batch arrives."""
    in_memory = [filling for filling in fillings if not filling.buffer.file]
    room = min(_MOST_BYTES, _SHARE_OF_FREE * (available_bytes() or math.inf))
    size = sum(filling.buffer.bytes or 0 for filling in in_memory)
    shuffled = [filling for filling in in_memory if filling.buffer.kind == SHUFFLE]
    seconds = sum(filling.seconds * (filling.buffer.elements or filling.declared) for filling in shuffled)
    has_no_end = any(filling.buffer.kind == SHUFFLE and filling.buffer.elements is None for filling in in_memory)
    return size > room or seconds > _MOST_SECONDS or has_no_end


def _writes(dataset: Any, buffers: Sequence[DataBuffer]) -> bool:
    """True if reading the dataset would write files."""
    caches = any(buffer.file and not os.path.exists(f"{buffer.file}.index") for buffer in buffers)
    return caches or any(kind_of(each) == _SNAPSHOT for each in chain(dataset))


def _small(filling: Filling) -> int:
    """Return the number of elements in the smaller version of a buffer."""
    if filling.buffer.kind == PREFETCH:
        return min(filling.declared, 2)
    size, seconds = filling.buffer.element_bytes or 1, filling.seconds
    by_time = int(_SMALL_SECONDS / seconds) if seconds else _SMALL_ELEMENTS
    most = max(1, min(_SMALL_ELEMENTS, _SMALL_BYTES // max(size, 1), by_time))
    return most if filling.declared < 0 else min(filling.declared, most)


def _made_smaller(dataset: Any, sizes: Mapping[int, int]) -> Any:
    """Return the pipeline with different buffer sizes and without caches and snapshots; None if that is impossible."""
    if _bytes_in_arrays(dataset) > _MOST_COPIED:
        return _rebuilt(dataset, sizes)
    try:
        variant = tf.data.experimental.to_variant(dataset)
        graph = tf.compat.v1.GraphDef.FromString(
            tf.raw_ops.DatasetToGraphV2(input_dataset=variant, external_state_policy=_WARN).numpy()
        )
        _change(graph, sizes)
        made = tf.raw_ops.DatasetFromGraph(graph_def=graph.SerializeToString())
        return tf.data.experimental.from_variant(made, dataset.element_spec)
    except (tf.errors.OpError, ValueError, TypeError):
        return _rebuilt(dataset, sizes)


def _bytes_in_arrays(dataset: Any) -> int:
    """Return the size in bytes of the arrays that a pipeline was created from."""
    functions = [function for each in chain(dataset) for function in functions_of(each)]
    tensors = [tensor for each in chain(dataset) for tensor in TENSORFLOW.source_tensors.get(each, None) or ()]
    tensors += [tensor for function in functions for tensor in function.captured_inputs]
    return sum(bytes_of_element(tensor) for tensor in tensors if hasattr(tensor, "numpy"))


def _rebuilt(dataset: Any, sizes: Mapping[int, int]) -> Any:
    """Rebuild the pipeline with different buffer sizes using public methods; None if the kind of a stage is unknown."""
    datasets = linear(dataset)
    if any(kind_of(each) in (SHUFFLE, CACHE, PREFETCH, _SNAPSHOT) for each in chain(datasets[0])):
        return None
    changes: dict[int, Apply | None] = {}
    for index, each in enumerate(datasets[1:], 1):
        kind, size = kind_of(each), sizes.get(declared_size(each) or 0)
        if kind in (CACHE, _SNAPSHOT):
            changes[index] = None
        elif kind in (SHUFFLE, PREFETCH) and size is not None:
            changes[index] = _with_buffer(kind, size)
    return rebuilt(datasets, changes)


def _with_buffer(method: str, size: int) -> Apply:
    return lambda before: getattr(before, method)(size)


def _change(graph: Any, sizes: Mapping[int, int]) -> None:
    """Change the sizes of the buffers in a pipeline's graph, and bypass caches and snapshots."""
    nodes = {node.name: node for node in graph.node}
    left_out: dict[str, str] = {}
    for node in graph.node:
        if "CacheDataset" in node.op or "SnapshotDataset" in node.op:
            left_out[node.name] = node.input[0]
        elif "ShuffleDataset" in node.op or "ShuffleAndRepeatDataset" in node.op or node.op == "PrefetchDataset":
            constant = nodes[node.input[1].partition(":")[0]]
            declared = int(tf.make_ndarray(constant.attr["value"].tensor))
            if declared in sizes:
                constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(sizes[declared], tf.int64))
    for node in graph.node:
        for index, name in enumerate(node.input):
            while (bare := name.partition(":")[0]) in left_out:
                name = left_out[bare]
            node.input[index] = name
