"""Replaces `optimizer.apply` while a step is traced, so that nothing is assigned before all gradients exist.

Keras' own graph applies each gradient as soon as it exists, so a step that runs out of memory in its backward pass has
already changed the last layers. While a step is traced, `apply` of that one optimizer object is replaced: either by the
same apply behind a barrier (no assignment before every gradient exists), or by a collector that only hands out the
gradients. The user's train step does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from oomph.tensorflow.batch.sparse_slices import ONE, JoinedSlices, Piece
from oomph.tensorflow.commit import held_assignments
from oomph.tensorflow.graph.write_set import components
from oomph.tensorflow.names.keras3 import KERAS

Gradients = Sequence[Any]
Apply = Callable[..., Any]


def behind_barrier(
    optimizer: Any,
    commits: tf.Variable,
    compiled_by_xla: bool = False,
    room_bytes: Callable[[], int | None] = lambda: None,
) -> Apply:
    """The optimizer's apply, held back until all gradients exist and `commits` has been incremented.

    `commits` is incremented after the last gradient and before the first assignment. A step that fails without
    incrementing it has changed neither weights nor slots. A step that fails after incrementing it may have.

    Args:
        optimizer: the optimizer.
        commits: counts the calls of its `apply`.
        compiled_by_xla: whether XLA compiles the traced step.
        room_bytes: how many bytes may be held on the device, if nothing else decides (`held_assignments.py`).
    """
    original = optimizer.apply

    def apply(grads: Gradients, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        if not optimizer.built and trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            # Outside the barrier: variables must not depend on a step's tensors. Slots get the names Keras gives them.
            with KERAS.name_scope.value()(optimizer.name, caller=optimizer):
                optimizer.build(trainable_variables)
        rest = () if trainable_variables is None else (trainable_variables,)
        alone = tf.distribute.get_replica_context().num_replicas_in_sync == 1
        if alone and not compiled_by_xla and not tf.executing_eagerly():
            return held_assignments.hold_back(lambda: original(grads, *rest), commits, room_bytes)
        started = tf.distribute.get_replica_context().merge_call(_counted, args=(commits, _dense_parts(grads)))
        with tf.control_dependencies([started]):
            held = [None if g is None else tf.nest.map_structure(tf.identity, g, expand_composites=True) for g in grads]
            return original(held, *rest)

    return apply


def _counted(strategy: Any, commits: tf.Variable, gradients: list[Any]) -> Any:
    """Count a commit once the gradients of every replica exist. Returns a tensor that exists after that."""
    everywhere = [own for gradient in gradients for own in strategy.experimental_local_results(gradient)]
    with tf.control_dependencies(everywhere):
        return tf.identity(commits.assign_add(1))


class Accumulators:
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
        """Whether the variables exist."""
        return bool(self._sums)

    def make(self, calls: Sequence[Gradients], variables: list[Any]) -> None:
        """Create the variables, unless they exist. In eager mode, since a trace that fails here cannot be repeated.

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
        """Keep the sparse gradients of one micro-batch. In eager mode.

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


def _dense_parts(grads: Gradients) -> list[tf.Tensor]:
    return [leaf for g in grads if g is not None for leaf in tf.nest.flatten(g, expand_composites=True)]
