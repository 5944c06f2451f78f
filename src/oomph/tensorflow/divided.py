"""A batch taken as micro-batches: the user's train step on each part, the gradients added up, one commit."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from oomph.tensorflow.barrier import Accumulators, apply_replaced_by, into_accumulators


class DividedStep:
    """The compiled parts of a divided step. Nothing but accumulators and small state changes before `commit`.

    Args:
        model: a compiled Keras model whose optimizer is built.
        commits: the variable that counts commits; it moves before the first assignment.
    """

    def __init__(self, model: Any, commits: tf.Variable) -> None:
        self._model, self._commits = model, commits
        self._sums = Accumulators()
        options = {"reduce_retracing": True, "jit_compile": model.jit_compile}
        self._add = tf.function(tf.autograph.experimental.do_not_convert(self._add_part), **options)
        self._commit = tf.function(tf.autograph.experimental.do_not_convert(self._apply_sums), **options)

    def start(self) -> None:
        """Forget the gradients of an earlier, unfinished step."""
        self._sums.clear()

    def add(self, part: Any, share: float) -> Any:
        """Run the train step on one micro-batch that makes up `share` of its batch; returns Keras' logs so far."""
        with tf.device("/CPU:0"):
            weight = tf.constant(share, tf.float64)
        return self._add(part, weight)

    def commit(self) -> None:
        """Apply the sum of the gradients, once."""
        self._commit()

    def _add_part(self, part: Any, weight: tf.Tensor) -> Any:
        with apply_replaced_by(self._model.optimizer, into_accumulators(self._model.optimizer, self._sums, weight)):
            return self._model.distribute_strategy.run(self._model.train_step, args=(part,))

    def _apply_sums(self) -> None:
        started = self._commits.assign_add(1, read_value=False)
        with tf.control_dependencies([started]):
            gradients = [None if g is None else tf.identity(g) for g in self._sums.gradients()]
            self._model.optimizer.apply(gradients, self._sums.targets)
