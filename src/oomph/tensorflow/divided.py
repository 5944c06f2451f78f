"""A batch taken as micro-batches: the user's train step on each part, the gradients added up, one commit."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from oomph.tensorflow.barrier import Accumulators, apply_replaced_by, into_list
from oomph.tensorflow.written import Slot


class DividedStep:
    """The compiled parts of a divided step. Nothing but accumulators and small state changes before `commit`.

    Only the gradients of a part are compiled by XLA, when the model is; adding them up is not. A step compiled by XLA
    loses the buffers of the variables it writes when it runs out of memory (see `whole.py`), and the sums must survive.

    Args:
        model: a compiled Keras model.
        commits: the variable that counts commits; it moves before the first assignment.
    """

    def __init__(self, model: Any, commits: tf.Variable) -> None:
        self._model, self._commits = model, commits
        self._sums = Accumulators()
        self._variables: list[Any] = []
        self._gradients = _compiled(self._gradients_of, jit_compile=model.jit_compile)
        self._add = _compiled(self._add_part)
        self._commit = _compiled(self._apply_sums, jit_compile=model.jit_compile)

    def extra_bytes(self) -> int:
        """What dividing takes on the device besides the parts: the sums, unless they exist, and a part's gradients."""
        weights = sum(Slot.of(variable).nbytes for variable in self._model.trainable_variables)
        return weights if self._sums.targets else 2 * weights

    def start(self) -> None:
        """Forget the gradients of an earlier, unfinished step."""
        self._sums.clear()

    def add(self, part: Any, share: float) -> Any:
        """Run the train step on one micro-batch that makes up `share` of its batch; returns Keras' logs so far."""
        with tf.device("/CPU:0"):
            weight = tf.constant(share, tf.float64)
        logs, sparse = self._add(part, weight)
        self._sums.keep(sparse)
        return logs

    def commit(self) -> None:
        """Apply the sum of the gradients, once."""
        self._commit(self._sums.sparse())

    def _gradients_of(self, part: Any) -> Any:
        gradients: list[Any] = []
        optimizer = self._model.optimizer
        with apply_replaced_by(optimizer, into_list(optimizer, gradients, self._variables)):
            logs = self._model.distribute_strategy.run(self._model.train_step, args=(part,))
        return logs, gradients

    def _add_part(self, part: Any, weight: tf.Tensor) -> Any:
        logs, gradients = self._gradients(part)
        return logs, self._sums.add(gradients, self._variables, weight)

    def _apply_sums(self, sparse: Any) -> None:
        started = self._commits.assign_add(1, read_value=False)
        with tf.control_dependencies([started]):
            held = [None if g is None else _identity(g) for g in self._sums.gradients(sparse)]
            self._model.optimizer.apply(held, self._sums.targets)


def _identity(gradient: Any) -> Any:
    return tf.nest.map_structure(tf.identity, gradient, expand_composites=True)


def _compiled(function: Any, jit_compile: Any = None) -> Any:
    untouched = tf.autograph.experimental.do_not_convert(function)
    return tf.function(untouched, reduce_retracing=True, jit_compile=jit_compile)
