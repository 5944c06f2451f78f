"""Captures the gradients that the user's step passes to its optimizers while it is traced for a micro-batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.batch.micro_batch_slice import MicroBatchSlice
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import replaced, while_tracing

NEVER_APPLIED = "the step applies no optimizer of the model"


class GradientCapture:
    """The calls of `optimizer.apply` in one traced micro-batch. None of them assigns anything.

    Args:
        frame: the position of the micro-batch in the full batch.
        summed: whether the loss of the step is a sum over samples. Then the gradients of micro-batches simply add up.

    Otherwise `optimizer.scale_loss` multiplies the loss by the share of the micro-batch before its gradients are taken,
    so that float16 gradients have the same magnitude as in the full batch. If the step does not call it, the gradients
    are multiplied.
    """

    def __init__(self, frame: MicroBatchSlice, summed: bool = False) -> None:
        self._frame, self._summed = frame, summed
        self.optimizers: list[Any] = []
        """The optimizer of each call of `apply`."""
        self.variables: list[list[Any]] = []
        """For each call, the variables of its gradients."""
        self.gradients: list[list[Any]] = []
        self._scaled: set[int] = set()
        self._before: set[str] | None = None
        self._late = False

    @staticmethod
    @contextmanager
    def replaced(optimizers: list[Any], current: Callable[[], GradientCapture | None]) -> Iterator[None]:
        """Within the block, these optimizers hand out their gradients.

        Args:
            current: returns the calls of the micro-batch that this thread traces; None in other threads.
        """
        with ExitStack() as undo:
            for optimizer in optimizers:
                for name, instead in (("apply", _captured), ("scale_loss", _scaled)):
                    original = getattr(optimizer, name)
                    replacement = while_tracing(original, current, functools.partial(instead, optimizer))
                    undo.enter_context(replaced(optimizer, name, replacement))
            yield

    def reason(self) -> str:
        """The reason the gradients cannot be added up and applied once; empty if they can."""
        if not self.optimizers:
            return NEVER_APPLIED
        return "its second optimizer needs what the first has updated" if self._late else ""

    @property
    def before(self) -> set[str]:
        """The names of the operations that existed at the first call."""
        return self._before or set()

    def _apply(self, optimizer: Any, grads: Any, trainable_variables: Any) -> None:
        grads = list(grads)
        self._note_order(grads)
        self.optimizers.append(optimizer)
        known = KERAS.optimizer_variables.of(optimizer) if trainable_variables is None else trainable_variables
        self.variables.append(list(known))
        weight = None if self._summed or id(optimizer) in self._scaled else self._frame.share
        self.gradients.append([_times(gradient, weight) for gradient in grads])

    def _scale(self, optimizer: Any, loss: Any) -> Any:
        self._scaled.add(id(optimizer))
        return loss if self._summed else loss * tf.cast(self._frame.share, loss.dtype)

    def _note_order(self, grads: list[Any]) -> None:
        """Record which operations existed before the first call; a gradient made later may depend on its update."""
        if tf.executing_eagerly():
            self._late = self._late or bool(self.optimizers)
            return
        graph = tf.compat.v1.get_default_graph()
        if self._before is None:
            self._before = {operation.name for operation in graph.get_operations()}
        leaves = [leaf for g in grads if g is not None for leaf in tf.nest.flatten(g, expand_composites=True)]
        self._late = self._late or any(leaf.op.name not in self._before for leaf in leaves)


def _captured(optimizer: Any, mine: GradientCapture, original: Any, grads: Any, trainable_variables: Any = None) -> Any:
    return mine._apply(optimizer, grads, trainable_variables)


def _scaled(optimizer: Any, mine: GradientCapture, original: Any, loss: Any) -> Any:
    return original(mine._scale(optimizer, loss))


def _times(gradient: Any, weight: Any) -> Any:
    if gradient is None or weight is None:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(weight, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(weight, gradient.dtype)
