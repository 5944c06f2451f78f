"""Corrects the loss of a micro-batch, so that the losses weighted by share add up to the loss of the full batch.

Keras computes a loss as a sum over entries divided by something. If that is the number of entries, the mean of a
micro-batch needs no correction. Otherwise, while the step is traced for a micro-batch, the result is corrected where
Keras reduces it:

- "sum" and "none": divided by the share of the micro-batch, since every loss is later multiplied by the share;
- "mean_with_sample_weight" and masks: the divisor of the micro-batch (sum of weights, count of valid entries) is
  replaced by that of the full batch, which a small function computes beforehand from the data alone;
- plain numbers divided by something that depends on the data alone, such as the count of valid tokens: their divisor
  is replaced in the same way;
- other plain numbers, from a custom loss function or `add_loss`: a numerical probe (`probe.py`) finds out whether they
  are means or sums.

Source: keras/src/losses/loss.py (`reduce_weighted_values`, `apply_mask`) and keras/src/layers/layer.py (`losses`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.batch.micro_batch_slice import MicroBatchSlice
from oomph.keras_bridge.graph.dependence import divisor_in_data
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import replaced, while_tracing

_MEANS = ("mean", "sum_over_batch_size")


class MicroBatchLosses:
    """The corrections for one traced micro-batch, and what the trace found.

    Args:
        frame: the position of the micro-batch in the full batch; None to only collect the divisors.
        eagerly: whether the step runs eagerly. Then the divisor of a number is unknown.
    """

    def __init__(self, frame: MicroBatchSlice | None, eagerly: bool = False) -> None:
        self._frame, self._eagerly = frame, eagerly
        self.divisors: list[tf.Tensor] = []
        """Divisors of this micro-batch, one for each reduction whose divisor depends on the data."""
        self.terms: list[tf.Tensor] = []
        """The terms of the loss that are plain numbers, before their correction."""
        self.names: list[str] = []
        """The name of each term, in the same order."""
        self._calls: list[type] = []
        """The nested losses that are being called, outermost first."""

    @staticmethod
    @contextmanager
    def replaced(current: Callable[[], MicroBatchLosses | None]) -> Iterator[None]:
        """Within the block, Keras' reductions and the losses that a layer lists are corrected for a micro-batch.

        Args:
            current: returns the corrections for the micro-batch that this thread traces; None in other threads.
        """
        with ExitStack() as undo:
            for function, instead in ((KERAS.reduce_values, _reduced), (KERAS.apply_mask, _masked)):
                replacement = while_tracing(function.value(), current, instead)
                undo.enter_context(replaced(*function.place, replacement))
            for cls in (KERAS.loss.value(), KERAS.compile_loss_class.value()):
                undo.enter_context(replaced(cls, "__call__", while_tracing(cls.__call__, current, _called)))
            layer = KERAS.layer.value()
            listed = while_tracing(layer.losses.fget, current, _listed)
            undo.enter_context(replaced(layer, "losses", property(listed)))
            yield

    def _reduced(self, loss: Any, given: dict[str, Any]) -> Any:
        """The corrected loss that Keras reduced from `given`."""
        reduction, weights = given["reduction"], given.get("sample_weight")
        if given["values"].shape.rank == 0:
            return self._term(loss, "a loss function that returns one number")
        if reduction in (None, "none", "sum"):
            return self._undivided(loss) if self._is_added(reduction) else loss
        if reduction == "mean_with_sample_weight" and weights is not None:
            return loss * tf.cast(self._share_of_divisor(tf.reduce_sum(weights)), loss.dtype)
        return loss

    def _is_added(self, reduction: str | None) -> bool:
        """True if the step adds a loss that is not a mean to its own loss unchanged.

        An outer loss reduces the result of an inner one, and the user's own step reduces one number per entry.
        """
        outer = self._calls[-2:-1]
        return "CompileLoss" in [cls.__name__ for cls in outer] if outer else reduction == "sum"

    def _share_of_divisor(self, own: tf.Tensor) -> Any:
        """The factor that corrects a mean over the micro-batch's own divisor; 1 if it is the full batch."""
        own = tf.cast(own, tf.float64)
        self.divisors.append(own)
        if self._frame is None:
            return tf.constant(1.0, tf.float64)
        whole = self._frame.divisors[len(self.divisors) - 1]
        return tf.math.divide_no_nan(own, self._frame.share * whole)

    def _undivided(self, loss: Any) -> Any:
        return loss if self._frame is None else tf.math.divide_no_nan(loss, tf.cast(self._frame.share, loss.dtype))

    def _term(self, loss: Any, name: str) -> Any:
        loss = tf.convert_to_tensor(loss)
        divisor = None if self._eagerly else divisor_in_data(loss)
        if divisor is not None:
            return loss * tf.cast(self._share_of_divisor(divisor), loss.dtype)
        self.terms.append(tf.cast(tf.reduce_sum(loss), tf.float64))
        self.names.append(name)
        if self._frame is None:
            return loss
        is_sum = self._frame.summed[len(self.terms) - 1]
        one = tf.ones([], tf.float64)
        factor = one + is_sum * (tf.math.divide_no_nan(one, self._frame.share) - one)
        return loss * tf.cast(factor, loss.dtype)


def _called(mine: MicroBatchLosses, original: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
    mine._calls.append(type(loss))
    try:
        return original(loss, *args, **kwargs)
    finally:
        mine._calls.pop()


def _listed(mine: MicroBatchLosses, original: Any, layer: Any) -> list[Any]:
    return [mine._term(loss, "add_loss or a regulariser") for loss in original(layer)]


def _reduced(mine: MicroBatchLosses, original: Any, *args: Any, **kwargs: Any) -> Any:
    return mine._reduced(original(*args, **kwargs), _arguments(original, args, kwargs))


def _masked(mine: MicroBatchLosses, original: Any, *args: Any, **kwargs: Any) -> Any:
    weights, given = original(*args, **kwargs), _arguments(original, args, kwargs)
    if given["mask"] is None or given["reduction"] not in _MEANS:
        return weights
    valid = tf.reduce_sum(tf.cast(given["mask"], tf.float64)) + _guard_of(original)
    return weights * tf.cast(mine._share_of_divisor(valid), weights.dtype)


def _arguments(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by name, including defaults."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


_guards: dict[Any, float] = {}


def _guard_of(apply_mask: Any) -> float:
    """The amount this Keras adds to the count of valid entries against division by zero: 0, formerly 1e-7."""
    if apply_mask not in _guards:
        with tf.init_scope():
            mask = tf.constant([True, False])
            weight = float(apply_mask(None, mask, tf.float64, "sum_over_batch_size")[0])
        guard = 2.0 / weight - 1.0
        _guards[apply_mask] = guard if guard > 1e-12 else 0.0
    return _guards[apply_mask]
