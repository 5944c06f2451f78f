"""Joins the slices of a sparse gradient in micro-batches into the slices of the full batch.

TensorFlow returns a table's gradient as IndexedSlices: one slice for each entry that was looked up. The kind of entry
determines how to combine the slices from micro-batches:

- Words in the samples: each micro-batch looks up its own words, so the slices are concatenated, as in the full batch.
- Positions, relative distances, class tokens: every micro-batch looks up the same entries, and the full batch looks
  them up only once. Matching slices are added up.
- Words that `tf.unique` has made distinct: the full batch looks up each word once, so slices with equal indices are
  added up.

A table may be used in several ways. Its gradient is then a concatenation, and each piece is handled separately.

Source: tensorflow/python/ops/array_grad.py (`_GatherV2Grad`), gradients_util.py (`AggregateIndexedSlicesGradients`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.batch.batches import tensor_of
from oomph.keras_bridge.graph import OnBatch, is_symbolic

_CARRIES_ON = ("Identity", "Reshape", "Cast")
"""Operations that keep the indices and their order."""
_UNIQUE = ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")


class Origin(Enum):
    """The data that the indices of a piece depend on."""

    SAMPLES = "samples"
    DISTINCT = "distinct"
    """The samples, with distinct indices."""
    SAME = "same"
    """The same for all micro-batches."""


@dataclass(frozen=True)
class Piece:
    """One of the pieces that make up a sparse gradient; `size` is in slices, or None if the trace lacks it."""

    origin: Origin
    size: int | None = None


ONE = (Piece(Origin.SAMPLES),)
"""The pieces of a gradient about which nothing is known: a single piece that depends on the samples."""


class TracedSlices:
    """The pieces of one sparse gradient in a traced step.

    Args:
        indices: the gradient's indices, in the graph of the step.
        batch: everything that differs between micro-batches: the tensors of the batch and of the frame.
    """

    def __init__(self, indices: Any, batch: Sequence[Any]) -> None:
        self._indices = _concatenated(indices)
        dependent = OnBatch(batch)
        self.pieces = tuple(Piece(_origin_of(each, dependent), _size_of(each)) for each in self._indices)

    def sizes(self) -> Any:
        """Return the number of slices in each piece as an int64 tensor [pieces]."""
        return tf.stack([tf.size(each, tf.int64) for each in self._indices])


class _OnHost(NamedTuple):
    """Slices as NumPy arrays, which take up no device memory, since the micro-batches still need it."""

    values: Any
    indices: Any


class JoinedSlices:
    """Joins the slices of one sparse gradient from all micro-batches, in eager mode."""

    def __init__(self, pieces: Sequence[Piece] = ONE) -> None:
        self._pieces = pieces
        self._kept: list[list[_OnHost]] = [[] for _ in pieces]
        self._device = ""
        self._dense_shape: Any = None

    def keep(self, slices: tf.IndexedSlices, sizes: Any = None) -> None:
        """Keep the slices of one micro-batch.

        Args:
            sizes: the sizes of the micro-batch's pieces as int64 [pieces], or None for a step that ran eagerly.

        Raises:
            ValueError: if the pieces cannot be told apart, or if the same lookup returns a different number of slices.
        """
        self._device, self._dense_shape = slices.values.device, slices.dense_shape
        for piece, kept, own in zip(self._pieces, self._kept, self._apart(slices, sizes), strict=True):
            if kept and piece.origin is Origin.SAME:
                kept[0] = _added(kept[0], own)
            else:
                kept.append(own)

    def joined(self) -> tf.IndexedSlices:
        """Return the slices of the full batch, on the device of the micro-batches' slices."""
        for piece, kept in zip(self._pieces, self._kept, strict=True):
            together = _side_by_side(kept)
            kept[:] = [_distinct(together) if piece.origin is Origin.DISTINCT else together]
        values, indices = _side_by_side([kept[0] for kept in self._kept])
        with tf.device(self._device):
            return tf.IndexedSlices(tensor_of(values), tensor_of(indices), self._dense_shape)

    def _apart(self, slices: tf.IndexedSlices, sizes: Any) -> list[_OnHost]:
        values, indices = slices.values.numpy(), slices.indices.numpy()
        if len(self._pieces) == 1:
            return [_OnHost(values, indices)]
        ends = np.cumsum(self._counted(len(indices)) if sizes is None else sizes)[:-1]
        return list(map(_OnHost, np.split(values, ends), np.split(indices, ends)))

    def _counted(self, count: int) -> list[int]:
        """Return the number of slices in each piece, given their sum; the size of at most one piece may be unknown."""
        known = [piece.size for piece in self._pieces]
        if known.count(None) > 1:
            raise ValueError("an eager step looks up the same table in several ways")
        rest = count - sum(size for size in known if size is not None)
        return [rest if size is None else size for size in known]


def _concatenated(indices: Any) -> list[Any]:
    """List the tensors that these indices concatenate, in order."""
    if not is_symbolic(indices):
        return [indices]
    tensor = indices
    while tensor.op.type in _CARRIES_ON:
        tensor = tensor.op.inputs[0]
    if tensor.op.type != "ConcatV2" or tf.get_static_value(tensor.op.inputs[-1]) != 0:
        return [indices]
    return [piece for each in tensor.op.inputs[:-1] for piece in _concatenated(each)]


def _origin_of(indices: Any, dependent: OnBatch) -> Origin:
    if not is_symbolic(indices) or not dependent(indices):
        return Origin.SAME
    tensor = indices
    while tensor.op.type in _CARRIES_ON:
        tensor = tensor.op.inputs[0]
    return Origin.DISTINCT if tensor.op.type in _UNIQUE and tensor.value_index == 0 else Origin.SAMPLES


def _size_of(indices: Any) -> int | None:
    count = indices.shape.num_elements()
    return None if count is None else int(count)


def _added(one: _OnHost, other: _OnHost) -> _OnHost:
    if one.values.shape != other.values.shape:
        raise ValueError("a lookup that seemed to be the same for all samples differs between micro-batches")
    return _OnHost(one.values + other.values, one.indices)


def _side_by_side(parts: Sequence[_OnHost]) -> _OnHost:
    if len(parts) == 1:
        return parts[0]
    return _OnHost(np.concatenate([part.values for part in parts]), np.concatenate([part.indices for part in parts]))


def _distinct(slices: _OnHost) -> _OnHost:
    """Add up slices with equal indices, keeping the order of `tf.unique`."""
    _, first, inverse = np.unique(slices.indices, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    values = np.zeros((len(order), *slices.values.shape[1:]), slices.values.dtype)
    np.add.at(values, place[inverse.reshape(-1)], slices.values)
    return _OnHost(values, slices.indices[np.sort(first)])
