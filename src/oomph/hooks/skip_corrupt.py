"""`--skip-corrupt`: when a tf.data stage fails on an element, skips that element and continues.

`Dataset.ignore_errors` is added after each stage that calls a function, and after each source that reads files, so that
only the record is dropped, not its whole batch. It changes nothing if nothing fails. After an unreadable record,
TensorFlow continues with the next file (`TFRecordDatasetOp` in tensorflow/core/kernels/data/tf_record_dataset_op.cc),
but a Python generator stops at its first error. Errors in a pipeline that starts with a generator are therefore still
raised.

This module is loaded while TensorFlow is being imported, so it imports none of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import patch

_CALL_A_FUNCTION = ("map", "interleave", "flat_map", "filter")
_TAKE_A_SOURCE = (
    *("batch", "padded_batch", "ragged_batch", "shuffle", "repeat", "prefetch", "cache", "take", "skip"),
    *("enumerate", "window", "group_by_window", "concatenate", "shard", "apply", "with_options"),
)
_READ_FILES = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
_OF_PYTHON = ("PyFunc", "EagerPyFunc")
_OF_LIBRARIES = (str(Path("tensorflow", "python")), str(Path("keras", "src", "trainers")))
"""The folders of library code whose pipelines, such as those from arrays or generators, still raise their errors."""
_UNKNOWN = -2
"""`tf.data.UNKNOWN_CARDINALITY`."""
_is_paused = _is_counting = False
guarded: WeakSet[Any] = WeakSet()
"""The datasets of this process that continue after an error."""


def install(module: Any) -> None:
    """Replace methods in `tensorflow.python.data.ops.dataset_ops`, a freshly imported module."""
    cls = module.DatasetV2
    for name in _CALL_A_FUNCTION:
        patch(cls, name, _going_on(getattr(cls, name)))
    for name in _TAKE_A_SOURCE:
        if hasattr(cls, name):
            patch(cls, name, _behind_files(getattr(cls, name)))
    patch(cls, "cardinality", _as_if_none_failed(cls.cardinality))


def _going_on(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        source = _source(self)
        made = original(source, *args, **kwargs)
        return _ignoring(made) if _is_asked_for() and not _from_python(source) else made

    return method


def _behind_files(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(_source(self), *args, **kwargs)

    return method


def _as_if_none_failed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `cardinality` to ignore oomph's stages, whose length TensorFlow does not know.

    Keras uses it to count steps, and creating more or fewer iterators would change shuffle orders.
    """

    @functools.wraps(original)
    def cardinality(self: Any) -> Any:
        found = original(self)
        is_known = not hasattr(found, "numpy") or int(found) != _UNKNOWN  # it has no value while being traced
        return found if is_known or not guarded or _is_counting else _counted(self, found)

    return cardinality


def _counted(dataset: Any, unknown: Any) -> Any:
    global _is_counting
    import tensorflow as tf  # completely imported by now

    from oomph.keras_bridge.pipelines.elements import length

    _is_counting = True
    try:
        return tf.constant(length(dataset, guarded), tf.int64)
    except Exception:  # Keras then counts the batches, as for any other data of unknown length
        return unknown
    finally:
        _is_counting = False


def _source(dataset: Any) -> Any:
    reads = any(name in type(dataset).__name__ for name in _READ_FILES)
    return _ignoring(dataset) if reads and _is_asked_for() else dataset


def _ignoring(dataset: Any) -> Any:
    found = dataset.ignore_errors(log_warning=True)
    guarded.add(found)
    return found


@contextmanager
def paused() -> Iterator[None]:
    """Within the block, let new pipelines raise their errors."""
    global _is_paused
    _is_paused = True
    try:
        yield
    finally:
        _is_paused = _is_counting = False


def _is_asked_for() -> bool:
    """True if the code that creates the pipeline, two frames up, is neither TensorFlow's nor Keras' trainer's."""
    if _is_paused:
        return False
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return not any(part in frame.f_code.co_filename for part in _OF_LIBRARIES)


def _from_python(dataset: Any) -> bool:
    """True if a Python generator is among the sources of a dataset."""
    waiting = [dataset]
    while waiting:
        each = waiting.pop()
        if "FlatMap" in type(each).__name__ and any(map(_calls_python, TENSORFLOW.dataset_functions.call(each))):
            return True
        waiting += TENSORFLOW.dataset_inputs.call(each)
    return False


def _calls_python(wrapper: Any) -> bool:
    graph = getattr(getattr(wrapper, "function", None), "graph", None)
    if graph is None:
        return False
    definition = graph.as_graph_def()
    inner = (node for function in definition.library.function for node in function.node_def)
    return any(node.op in _OF_PYTHON for node in (*definition.node, *inner))
