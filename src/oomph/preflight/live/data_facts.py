"""Turns the data passed to fit into facts, including statistics of a sample."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import chain
from oomph.keras_bridge.pipelines.elements import corrupt_records
from oomph.planning.live.readable import readable, room_for
from oomph.preflight.facts.data import (
    ARRAYS,
    BATCHING,
    DATASET,
    ENDLESS,
    GENERATOR,
    LOADER,
    OTHER,
    PY_DATASET,
    Data,
    Part,
)
from oomph.preflight.facts.model import Shape
from oomph.preflight.live.reading import USUAL, Leaf, Limits, Read, ReadingProgress, as_array, leaves_of, named, read
from oomph.preflight.live.stages import are_shuffled_apart, stages_of
from oomph.preflight.live.statistics import Totals, classes_of, same_rows, sample_of, totals_of

Array = np.ndarray[Any, Any]
Tell = Callable[[str], None]
"""A function that shows the user what is currently happening."""
_BATCHING = (*BATCHING, "dense_to_ragged", "dense_to_ragged_batch")
_SECONDS_TO_SEARCH = 20.0
_USUAL_BATCH = 32
"""Keras' default `batch_size`."""


@dataclass(frozen=True)
class Looked:
    """Facts about the data, and one batch for the trial steps."""

    data: Data
    batch: Any
    """The batch as fit passes it to `train_step`: x, (x, y) or (x, y, sample_weight); None if there is no batch."""
    rows: frozenset[int] = frozenset()
    """A hash of x for each distinct sample."""


def look_at(
    x: Any, y: Any = None, sample_weight: Any = None, batch_size: int | None = None,
    limits: Limits = USUAL, input_rank: int | None = None,
    tell: Tell = lambda text: None,
) -> Looked:  # fmt: skip
    """Read the data passed to fit, evaluate or train_on_batch.

    Args:
        x, y, sample_weight, batch_size: as for fit.
        limits: how much to read.
        input_rank: the rank of the model's first input, including the batch dimension, if known.
        tell: shows progress to the user.
    """
    if x is None:
        return Looked(Data(GENERATOR), None)  # a generator that must not be read
    if isinstance(x, tf.data.Dataset):
        return _dataset(x, limits, input_rank, tell)
    if isinstance(x, keras.utils.PyDataset):
        return _py_dataset(x, limits, tell)
    if _is_loader(x):
        return _loader(x, limits, tell)
    if TENSORFLOW.original_dataset.on(x):  # distributed by a strategy
        return look_at(TENSORFLOW.original_dataset.of(x), limits=limits, input_rank=input_rank, tell=tell)
    if inspect.isgenerator(x) or (hasattr(x, "__next__") and hasattr(x, "__iter__")):
        return _looked(Data(GENERATOR), read(x, limits.of_an_epoch(), tell=ReadingProgress(limits.epoch, tell)))
    return _arrays(x, y, sample_weight, batch_size, limits)


def _dataset(dataset: Any, limits: Limits, input_rank: int | None, tell: Tell) -> Looked:
    stages = stages_of(dataset)
    specification = dataset.element_spec
    is_batched = _is_batched(specification, [stage.kind for stage in stages], input_rank)
    batches = _cardinality(dataset)
    limits = limits.of_an_epoch() if batches == ENDLESS else limits
    source = readable(dataset)
    given = source.dataset if source.dataset is not None else ()
    found = read(given, limits, is_batched, ReadingProgress(limits.epoch if batches == ENDLESS else batches, tell))
    found.is_whole = found.is_whole and source.dataset is not None
    sizes = [stage.batch for stage in stages if stage.kind in _BATCHING and stage.batch]
    data = Data(
        DATASET, tuple(_of_spec(leaf, spec, is_batched) for leaf, spec in leaves_of(specification)),
        batch=sizes[-1] if sizes else None, batches=found.batches if found.is_whole else batches, stages=stages,
        shuffled_apart=are_shuffled_apart(dataset), buffers=source.buffers, room=room_for(source.buffers),
        has_length=batches is not None, samples=found.rows if found.is_whole else None,
        failed_record=next(corrupt_records(chain(dataset), _SECONDS_TO_SEARCH), "") if found.failed else "",
    )  # fmt: skip
    looked = _looked(data, found, is_batched)
    return replace(looked, data=_unmixed(looked.data)) if source.mixes_less and not found.is_whole else looked


def _unmixed(data: Data) -> Data:
    """Return the facts without target statistics: a smaller shuffle buffer may yield targets of a single class."""
    parts = (replace(part, sample=None) if part.role == "y" else part for part in data.parts)
    return replace(data, parts=tuple(parts), same_batches=0)


def _loader(loader: Any, limits: Limits, tell: Tell) -> Looked:
    batches, limits = _length_of(loader), limits.of_an_epoch()
    found = read(_batches_of(loader), limits, tell=ReadingProgress(batches or limits.epoch, tell))
    return _looked(Data(LOADER, batches=batches), found)


def _is_batched(specification: Any, kinds: Sequence[str], input_rank: int | None) -> bool:
    if any(kind in _BATCHING for kind in kinds):
        return True
    first = next((spec for leaf, spec in leaves_of(specification) if leaf.role == "x"), None)
    rank = getattr(getattr(first, "shape", None), "rank", None)
    return rank is None or input_rank is None or rank >= input_rank


def _cardinality(dataset: Any) -> int | None:
    found = int(dataset.cardinality())
    if found == tf.data.INFINITE_CARDINALITY:
        return ENDLESS
    return None if found == tf.data.UNKNOWN_CARDINALITY else found


def _of_spec(leaf: Leaf, spec: Any, is_batched: bool) -> Part:
    shape = getattr(spec, "shape", None)
    dims: Shape | None = None
    if shape is not None and shape.rank is not None:
        dims = tuple(None if size is None else int(size) for size in shape)
        if is_batched and dims:
            dims = (None, *dims[1:])
    return Part(
        leaf.role, leaf.name, leaf.key, dims, getattr(getattr(spec, "dtype", None), "name", "float32"),
        isinstance(spec, tf.RaggedTensorSpec), isinstance(spec, tf.SparseTensorSpec),
    )  # fmt: skip


def _py_dataset(dataset: Any, limits: Limits, tell: Tell) -> Looked:
    try:
        batches = dataset.num_batches
    except Exception:  # a user-defined __len__ may fail
        batches = None

    def each() -> Iterator[Any]:
        for index in range(batches) if batches is not None else itertools.count():
            yield dataset[index]

    limits = limits.of_an_epoch() if batches is None else limits
    found = read(each(), limits, tell=ReadingProgress(limits.epoch if batches is None else batches, tell))
    last = None if batches is None or found.failed else _empty(dataset, batches - 1)
    empty = last if found.empty is None else found.empty
    return _looked(Data(PY_DATASET, batches=batches, has_length=batches is not None, empty_batch=empty), found)


def _empty(dataset: Any, index: int) -> int | None:
    """Return the index of a batch that has no samples, or None if the batch is not empty."""
    try:
        arrays = [as_array(value) for _, value in leaves_of(dataset[index])]
    except Exception:  # a user-defined __getitem__ may fail
        return None
    return index if arrays and all(array is not None and array.ndim and not len(array) for array in arrays) else None


def _arrays(x: Any, y: Any, sample_weight: Any, batch_size: int | None, limits: Limits) -> Looked:
    leaves = [*named("x", x), *named("y", y), *named("sample_weight", sample_weight)]
    whole = {leaf: array for leaf, value in leaves if (array := as_array(value)) is not None}
    sizes = [int(array.shape[0]) for array in whole.values() if array.ndim]
    samples = min(sizes, default=0)
    if not sizes:
        return Looked(Data(OTHER, unread=type(x).__name__), None)
    size = sum(array.nbytes for array in whole.values())
    kept = samples if size <= limits.size else max(1, int(samples * limits.size / size))
    rows = np.arange(samples) if kept == samples else np.linspace(0, samples - 1, kept).astype(np.int64)
    taken = {
        leaf: array if kept == samples or leaf.role != "x" or not array.ndim else array[rows]
        for leaf, array in whole.items()
    }
    batch = batch_size or _USUAL_BATCH
    parts = tuple(
        replace(_of_batch(leaf, value), rows=_rows_of(value, array))
        for leaf, value in leaves
        if (array := whole.get(leaf)) is not None
    )  # fmt: skip
    data = Data(ARRAYS, parts, batch, -(-samples // batch) if samples else 0, samples, has_length=True)
    totals = {leaf: totals_of(array) for leaf, array in whole.items()} if limits.reads_on and kept < samples else {}
    looked = _with_samples(data, taken, kept == samples or bool(totals), rows if kept != samples else None, totals)
    head = min(batch, samples)
    first = keras.utils.pack_x_y_sample_weight(*(_head(value, head) for value in (x, y, sample_weight)))
    return replace(looked, batch=keras.tree.map_structure(_as_keras_takes_it, first) if samples else None)


def _as_keras_takes_it(part: Any) -> Any:
    """Convert a floating-point array to Keras' default precision; return anything else unchanged."""
    is_float = isinstance(part, np.ndarray) and part.dtype.kind == "f"
    return part.astype(keras.config.floatx()) if is_float else part


def _rows_of(value: Any, array: Array) -> int | None:
    """Return the number of samples in an array, or None if it has no batch dimension."""
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        return None if value.shape[0] is None else int(value.shape[0])
    return int(array.shape[0]) if array.ndim else None


def _head(value: Any, rows: int) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {key: _head(each, rows) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and any(hasattr(each, "shape") for each in value):
        return tuple(_head(each, rows) for each in value)  # tf.data treats a list as a single tensor
    if isinstance(value, (tf.RaggedTensor, tf.Tensor)):
        return value[:rows]
    array = as_array(value)
    return None if array is None or not array.ndim else array[:rows]


def _looked(data: Data, found: Read, is_batched: bool = True) -> Looked:
    arrays = found.joined()
    known = {part.name: part for part in data.parts}
    parts = []
    for leaf, value in leaves_of(found.first) if found.first is not None else ():
        part = known.get(leaf.name) or _of_batch(leaf, value)
        parts.append(replace(part, shapes=tuple(sorted(found.shapes.get(leaf, ())))))
    changed = replace(
        data, parts=tuple(parts) or data.parts, failed=found.failed, failed_after=found.batches,
        batch=data.batch or (found.rows // found.batches if found.batches and is_batched else None),
        batches=found.batches if found.is_whole else data.batches,
        same_batches=len(found.digests) if len(set(found.digests)) == 1 else 0,
        empty_batch=found.empty if data.empty_batch is None else data.empty_batch,
        samples=found.rows if found.is_whole else data.samples,
    )  # fmt: skip
    looked = _with_samples(changed, arrays, found.is_whole, None, found.totals)
    return replace(looked, batch=found.first if is_batched else None)


def _of_batch(leaf: Leaf, value: Any) -> Part:
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        dims = tuple(value.shape)
        return Part(leaf.role, leaf.name, leaf.key, (None, *dims[1:]), value.dtype.name,
                    isinstance(value, tf.RaggedTensor), isinstance(value, tf.SparseTensor))  # fmt: skip
    array = as_array(value)
    if array is None:
        return Part(leaf.role, leaf.name, leaf.key)
    return Part(leaf.role, leaf.name, leaf.key, (None, *array.shape[1:]) if array.ndim else (), _dtype(array))


def _dtype(array: Array) -> str:
    return "string" if array.dtype.kind in "SU" else str(array.dtype)


def _with_samples(
    data: Data, arrays: Mapping[Leaf, Array], is_whole: bool, rows: Array | None, totals: Mapping[Leaf, Totals]
) -> Looked:
    """Add statistics to each part of the data.

    Args:
        data: the facts without these statistics.
        arrays: the values of the parts.
        is_whole: True if the values cover all of the data.
        rows: the selected rows of x; None if all are selected.
        totals: statistics of parts for which more data was read than the arrays contain.
    """
    target = next((array for leaf, array in arrays.items() if leaf.role == "y"), None)
    number = None if target is None else _one_number(target)
    if number is not None and rows is not None:
        number = number[rows]
    parts = []
    for part in data.parts:
        leaf = Leaf(part.role, part.name, part.key)
        array = arrays.get(leaf)
        if array is None or part.is_sparse:  # only the nonzero values of a sparse part were read
            parts.append(part)
            continue
        sample = sample_of(array, number, is_whole or (part.role != "x" and rows is not None), part.role == "y")
        sample = totals[leaf].merged(sample) if leaf in totals else sample
        same = part.role == "x" and target is not None and array.shape == target.shape
        parts.append(
            replace(
                part,
                sample=sample,
                equals_target=same and bool(np.array_equal(array, target)),
                empty_share=float(np.mean(array == np.zeros((), array.dtype))) if array.dtype.kind in "SU" else 0.0,
            )
        )
    inputs = {leaf.name: array for leaf, array in arrays.items() if leaf.role == "x"}
    everything = {
        leaf.name: array[rows] if rows is not None and leaf.role != "x" and array.ndim else array
        for leaf, array in arrays.items()
    }
    duplicates, _ = same_rows(everything)
    repeated, hashes = same_rows(inputs)
    parts = [
        replace(part, sample=replace(part.sample, duplicate_rows=duplicates, repeated_inputs=repeated))
        if part.role == "x" and part.sample is not None
        else part
        for part in parts
    ]
    return Looked(replace(data, parts=tuple(parts)), None, hashes)


def _one_number(target: Array) -> Array | None:
    """Return the target as one number per sample, or None if samples have more than one."""
    classes = classes_of(target)
    if classes is not None:
        return classes
    flat = target.reshape(-1) if target.ndim == 1 or (target.ndim == 2 and target.shape[1] == 1) else None
    return flat if flat is not None and flat.dtype.kind in "biuf" else None


_LOADERS = (
    *(("grain", name) for name in ("MapDataset", "IterDataset", "DataLoader")),
    ("torch.utils.data", "DataLoader"),
)
"""Data loaders that Keras also reads, as pairs of a substring of the module name and the class name."""


def _is_loader(x: Any) -> bool:
    """True for Grain data or a PyTorch DataLoader."""
    return any(
        kind.__name__ == name and module in kind.__module__ for kind in type(x).__mro__ for module, name in _LOADERS
    )


def _batches_of(loader: Any) -> Iterator[Any]:
    """Yield the batches of a data loader in the form in which Keras passes them to a model."""
    for batch in loader:
        arrays = keras.tree.map_structure(_part_as_array, batch)
        yield keras.tree.lists_to_tuples(arrays)


def _length_of(loader: Any) -> int | None:
    """Return the number of batches per epoch, or None for Grain and streams, where Keras does not know it either."""
    data = getattr(loader, "dataset", None)
    return len(loader) if hasattr(data, "__len__") else None


def _part_as_array(part: Any) -> Any:
    if part is None:
        return None
    is_of_torch = type(part).__module__.partition(".")[0] == "torch"  # TensorFlow has deprecated its own cpu()
    return np.asarray(part.cpu() if is_of_torch else part)
