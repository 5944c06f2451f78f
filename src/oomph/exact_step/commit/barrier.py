"""Replaces `optimizer.apply` while a step is traced, so that nothing is assigned before all gradients exist.

Keras' own graph applies each gradient as soon as it exists, so a step that runs out of memory in its backward pass has
already changed the last layers. While a step is traced, `apply` of that one optimizer object is replaced: either by the
same apply behind a barrier (no assignment before every gradient exists), or by a collector that only hands out the
gradients. The user's train step does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from oomph.exact_step.commit import held_assignments
from oomph.keras_bridge.names.keras3 import KERAS

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
    """Count a commit once the gradients of every replica exist. Returns a tensor that exists once it is counted."""
    everywhere = [own for gradient in gradients for own in strategy.experimental_local_results(gradient)]
    with tf.control_dependencies(everywhere):
        return tf.identity(commits.assign_add(1))


def _dense_parts(grads: Gradients) -> list[tf.Tensor]:
    return [leaf for g in grads if g is not None for leaf in tf.nest.flatten(g, expand_composites=True)]
