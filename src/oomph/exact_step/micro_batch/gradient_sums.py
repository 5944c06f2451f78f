"""Adds up the gradients of micro-batches: dense ones in a variable each, sparse ones as slices of the full batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.batch.sparse_slices import ONE, JoinedSlices, Piece
from oomph.keras_bridge.graph.write_set import components

Gradients = Sequence[Any]


class GradientSums:
    """The weighted sum of the gradients of a batch's micro-batches.

    Dense gradients are added up in one variable per trainable variable. This takes as much device memory as one more
    set of gradients, but only from the first out-of-memory error on. Sparse ones (IndexedSlices, of Embedding layers)
    become the slices of the full batch (`sparse_slices.py`), since Keras' optimizers square and clip the slices before
    they add up equal indices.

    Args:
        replica: the replica whose gradients they are.
    """

    def __init__(self, replica: int = 0) -> None:
        self._replica = replica
        self.pieces: dict[int, tuple[Piece, ...]] = {}
        """The pieces of sparse gradients, by number; unknown for those not listed."""
        self._sums: list[tf.Variable | None] | None = None
        self._slices: dict[int, JoinedSlices] = {}

    @property
    def exist(self) -> bool:
        """True if the variables for the sums exist."""
        return bool(self._sums)

    def make(self, calls: Sequence[Gradients], variables: list[Any]) -> None:
        """Create the variables unless they exist. Eager mode only, since a trace that fails here cannot be repeated.

        Args:
            calls: for each call of an optimizer, its gradients.
            variables: the variables of the gradients, for all calls in order.
        """
        if self._sums is None:
            grads = [gradient for call in calls for gradient in call]
            self._sums = [
                _zeros_like(components(v)[self._replica]) if _is_dense(g) else None
                for g, v in zip(grads, variables, strict=True)
            ]

    def add(self, calls: Sequence[Gradients]) -> dict[str, tf.IndexedSlices]:
        """Add each dense gradient. Returns the sparse ones, for `keep`."""
        assert self._sums is not None
        grads = [gradient for call in calls for gradient in call]
        sparse = {}
        for index, (gradient, total) in enumerate(zip(grads, self._sums, strict=True)):
            if isinstance(gradient, tf.IndexedSlices):
                sparse[str(index)] = gradient
            elif total is not None:
                total.assign_add(tf.cast(gradient, total.dtype), read_value=False)
        return sparse

    def keep(self, sparse: dict[str, tf.IndexedSlices], sizes: Mapping[str, Any] | None = None) -> None:
        """Keep the sparse gradients of one micro-batch. Eager mode only.

        Args:
            sizes: the sizes of the pieces, for gradients with several pieces.
        """
        for index, slices in sparse.items():
            pieces = self.pieces.get(int(index), ONE)
            self._slices.setdefault(int(index), JoinedSlices(pieces)).keep(slices, (sizes or {}).get(index))

    def clear(self) -> None:
        """Set every sum to zero."""
        self._slices.clear()
        for total in self._sums or []:
            if total is not None:
                total.assign(tf.zeros_like(total), read_value=False)

    def sparse(self) -> dict[str, tf.IndexedSlices]:
        """The sparse gradients of all micro-batches, as for the full batch."""
        return {str(index): slices.joined() for index, slices in self._slices.items()}

    def gradients(self, sparse: dict[str, tf.IndexedSlices]) -> list[Any]:
        """The sums in the order of the variables, including the result of `sparse`; None for no gradient."""
        dense = [None if total is None else total.read_value() for total in self._sums or []]
        return [sparse.get(str(index), total) for index, total in enumerate(dense)]


def _is_dense(gradient: Any) -> bool:
    return gradient is not None and not isinstance(gradient, tf.IndexedSlices)


def _zeros_like(value: Any) -> tf.Variable:
    with tf.device(value.device):
        return tf.Variable(tf.zeros(value.shape, value.dtype), trainable=False)
