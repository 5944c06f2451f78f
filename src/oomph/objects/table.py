"""Maps an object's class to its kind."""

from __future__ import annotations

import array
import collections
import functools
import io
import random
import threading
from contextvars import ContextVar
from types import CellType, FunctionType, GeneratorType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge import code
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.objects import arrays, containers, instances, iteration, library_kinds, random_kinds, standard_kinds
from oomph.objects.kind import Kind

OPAQUE = Kind()
GLOBALS = instances.Globals()
_INSTANCE, _CLASS, _WRAPPER = instances.Instance(), instances.Class(), instances.Wrapper()
_ITERATED: tuple[Any, ...] = ([], (), range(0), {}, set(), "", b"")
_BUILTIN_ITERATORS: tuple[type, ...] = (
    *(type(iter(each)) for each in _ITERATED),
    *(type(reversed([])), *(kind for kind in iteration.MAKERS.values() if isinstance(kind, type))),
)
_UNSEEN = iteration.UnseenIterator()
_ITERATOR, _METHOD, _RANDOM = iteration.BuiltinIterator(), instances.Method(), random_kinds.NumpyRandom()
_BY_CLASS: dict[type, Kind] = {
    dict: containers.Mapping(),
    list: containers.Sequence(list, containers.fill_list),
    set: containers.Sequence(set, containers.fill_set),
    collections.deque: containers.Sequence(collections.deque, containers.fill_deque),
    bytearray: containers.Bytes(),
    np.random.Generator: _RANDOM,
    np.random.RandomState: _RANDOM,
    np.random.BitGenerator: _RANDOM,
    random.Random: random_kinds.PythonRandom(),
    np.random.SeedSequence: random_kinds.Seeds(),
    random.SystemRandom: OPAQUE,
    tf.Variable: arrays.Variable(),
    tf.random.Generator: library_kinds.RandomGenerator(),
    tf.data.Dataset: library_kinds.Dataset(),
    tf.data.Iterator: library_kinds.DatasetIterator(),
    **dict.fromkeys(instances.WRAPPERS, _WRAPPER),
    FunctionType: instances.Function(),
    MethodType: _METHOD,
    functools.partial: _METHOD,
    CellType: instances.Cell(),
    GeneratorType: iteration.Generator(),
    SimpleNamespace: _INSTANCE,
    threading.local: standard_kinds.ThreadLocal(),
    ContextVar: standard_kinds.ContextValue(),
    **dict.fromkeys(_BUILTIN_ITERATORS, _ITERATOR),
    **dict.fromkeys(standard_kinds.FILES, standard_kinds.OpenFile()),
    **dict.fromkeys((io.StringIO, io.BytesIO), standard_kinds.Buffer()),
    array.array: standard_kinds.Numbers(),
}
"""The kind of each known class and its subclasses."""
_BY_NAME: dict[str, Kind] = {
    KERAS.variable.path: _BY_CLASS[tf.Variable],
    KERAS.history.path: library_kinds.HistoryKind(),
    KERAS.callback.path: library_kinds.LibraryObject(),
    KERAS.optimizer.path: library_kinds.OptimizerKind(),
    TENSORFLOW.function.path: library_kinds.TensorFlowFunction(),
    **dict.fromkeys(standard_kinds.DIGESTS, standard_kinds.Digest()),
    "weakref.WeakKeyDictionary": containers.WeakKeys(),
    **dict.fromkeys(standard_kinds.MEMORY, standard_kinds.Memory()),
    **dict.fromkeys(standard_kinds.SHARED, standard_kinds.SharedMemory()),
    "torch._C.Generator": random_kinds.TorchRandom(),
    **dict.fromkeys(arrays.FRAMES, arrays.PandasFrame()),
    **dict.fromkeys(standard_kinds.DATABASES, standard_kinds.Database()),
    TENSORFLOW.queue.path: arrays.Queue(),
    TENSORFLOW.hash_table.path: arrays.Table(),
    TENSORFLOW.dense_hash_table.path: arrays.Table(),
}
_LIBRARY_OBJECT = _BY_NAME[KERAS.callback.path]
_ATTRIBUTES = library_kinds.OwnAttributes()
_OF_PYTHON = ("itertools", "builtins", "_csv")
_INERT = frozenset((
    "absl", "asyncio", "concurrent", "contextlib", "ctypes", "grpc", "h5py", "IPython", "ipykernel", "jax", "joblib",
    "logging", "matplotlib", "mlflow", "multiprocessing", "PIL", "psutil", "pynvml", "rich", "socket", "sqlalchemy",
    "sqlite3", "ssl", "subprocess", "tempfile", "tensorboard", "threading", "torch", "tqdm", "typing", "unittest",
    "urllib", "wandb", "weakref", "zipfile", "oomph", "_thread", "_io", "io", "abc", "types", "builtins",
))  # fmt: skip
"""Libraries whose objects lie outside the training state: locks, files, loggers, connections."""
_PIPELINE, _PIPELINES = library_kinds.Pipeline(), ("grain.", "torch.utils.data.")
_STATISTICS = "grain._src.python.dataset.stats"
_STORED = tuple(f"optuna.storages.{name}" for name in ("_cached_storage", "_rdb", "_grpc", "journal"))
"""Modules whose objects cache state from a disk or server; the cache is not part of the training state."""


def kind_of(thing: Any) -> Kind:
    """Return the kind of an object, or the opaque kind if its class is unknown."""
    if issubclass(type(thing), type):  # `isinstance` would consult the object, which may raise or lie
        return _CLASS if code.is_users(thing.__module__) else OPAQUE
    if type(thing) is FunctionType and not code.is_users(thing.__globals__.get("__name__", "")):
        return _WRAPPER if instances.wrapped_by(thing) is not None else OPAQUE
    kind: Any = type(thing)
    return _kind_of_class(kind, _dtype_kind(thing))


def _dtype_kind(thing: Any) -> str:
    """Return a NumPy array's content type: "n" for numbers, "O" for Python objects; empty for anything else."""
    if not issubclass(type(thing), np.ndarray):
        return ""
    return "O" if thing.dtype.kind == "O" else "n"


def kind_when_saved_elsewhere(thing: Any) -> Kind:
    """Return the kind for a layer or similar object whose variables are saved elsewhere.

    Only the attributes that the user set count.
    """
    return _ATTRIBUTES if isinstance(kind_of(thing), library_kinds.LibraryObject) else OPAQUE


def kind_of_tag(tag: str) -> Kind:
    """Return the kind with this tag. Raises ValueError if there is none."""
    known: dict[str, Kind] = {kind.tag: kind for kind in (*_BY_CLASS.values(), _INSTANCE)}
    known |= {kind.tag: kind for kind in _BY_NAME.values() if not isinstance(kind, library_kinds.LibraryObject)}
    known |= {kind.tag: kind for kind in map(instances.Attributed, filter(_may_have_attributes, _BY_CLASS.values()))}
    known |= {"array": arrays.NumberArray(), "object array": arrays.ObjectArray(), "tensor": arrays.Tensor()}
    if tag not in known:
        raise ValueError(f"unknown kind of object: {tag}")
    return known[tag]


def is_outside(cls: type) -> bool:
    """True if objects of this class lie outside the training state: locks, files, loggers, connections.

    So do symbolic tensors: what a layer keeps of its last trace has no value, and the next trace replaces it.
    """
    if any(base.__name__ == "SymbolicTensor" and code.is_of_library(base) for base in cls.__mro__):
        return True
    inert = cls.__module__.partition(".")[0] in _INERT or cls.__module__.startswith((*_STORED, _STATISTICS))
    return inert and not _is_iterator_of_python(cls)


def _is_iterator_of_python(cls: type) -> bool:
    return cls.__module__ in _OF_PYTHON and hasattr(cls, "__next__")


def _may_have_attributes(kind: Kind) -> bool:
    return isinstance(kind, (containers.Mapping, containers.Sequence))


@functools.lru_cache(maxsize=4096)
def _kind_of_class(cls: type, dtype: str) -> Kind:
    if dtype:
        return arrays.ObjectArray() if dtype == "O" else arrays.NumberArray()
    bases = cls.__mro__
    known = [_BY_CLASS.get(base) or _BY_NAME.get(f"{base.__module__}.{base.__qualname__}") for base in bases]
    found = next((kind for kind in known if kind is not None), None)
    if found is not None:
        return instances.Attributed(found) if _may_have_attributes(found) and code.is_users(cls.__module__) else found
    if code.is_holder(cls):
        return _LIBRARY_OBJECT
    if any(base.__name__ == "EagerTensor" and code.is_of_library(base) for base in bases):
        return arrays.Tensor()
    if _is_iterator_of_python(cls):
        return _UNSEEN
    if cls.__module__.startswith(_PIPELINES) and not cls.__module__.startswith(_STATISTICS):
        return _PIPELINE
    if is_outside(cls) or code.is_of_library(cls):
        return OPAQUE
    return _INSTANCE
