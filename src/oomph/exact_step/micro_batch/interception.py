"""Intercepts gradients, losses and metrics while the user's step is traced for a micro-batch.

Keras computes a loss as a sum over entries, divided by some number. If that number is the count of entries, the mean
over a micro-batch needs no correction. Otherwise, while the step is traced for a micro-batch, the result is corrected
where Keras reduces it:

- "sum" and "none": divided by the micro-batch's share, since every loss is later multiplied by that share;
- "mean_with_sample_weight" and masks: the micro-batch's divisor (the sum of weights or the count of valid entries) is
  replaced by the full batch's divisor, which a small function computes beforehand from the data alone;
- plain numbers whose divisor depends on the data alone, such as the count of valid tokens: the divisor is replaced in
  the same way;
- other plain numbers, from a custom loss function or `add_loss`: a numerical probe (`probe.py`) finds out whether they
  are means or sums.

Source: keras/src/losses/loss.py (`reduce_weighted_values`, `apply_mask`) and keras/src/layers/layer.py (`losses`).

Most Keras metrics add up over samples, so the micro-batches can update them one after the other. Two kinds do not. They
are updated once, with values collected from the micro-batches:

- means of plain numbers (the loss tracker, custom metric functions that return one number): a micro-batch would count
  as much as a full batch, so the numbers are first merged, weighted by the share of each micro-batch;
- metrics whose classes do not come from Keras: they receive the samples of all micro-batches together.

The step returns values of `metric.result()`; these are read again after the last update.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.dialects import KERAS_3, Dialect, LossHooks, dialect_of
from oomph.keras_bridge.graph import divisor_in_data
from oomph.keras_bridge.runtime.patching import replaced, while_tracing

NEVER_APPLIED = "the step does not apply the model's optimizer"


class GradientCapture:
    """The calls to `optimizer.apply` in one traced micro-batch. None of the calls assigns anything.

    Args:
        frame: the position of the micro-batch in the full batch.
        summed: True if the step's loss is a sum over samples, so that the gradients of micro-batches simply add up.

    If it is not a sum, `optimizer.scale_loss` multiplies the loss by the micro-batch's share before the gradients are
    computed, so that float16 gradients have the same magnitude as in the full batch. If the step does not call
    `scale_loss`, the gradients are multiplied instead.
    """

    def __init__(self, frame: MicroBatchSlice, summed: bool = False) -> None:
        self._frame, self._summed = frame, summed
        self.optimizers: list[Any] = []
        """The optimizer of each call to `apply`."""
        self.variables: list[list[Any]] = []
        """The variables that the gradients of each call belong to."""
        self.gradients: list[list[Any]] = []
        self._scaled: set[int] = set()
        self._before: set[str] | None = None
        self._late = False

    @staticmethod
    @contextmanager
    def replaced(optimizers: list[Any], current: Callable[[], GradientCapture | None]) -> Iterator[None]:
        """Within the block, make these optimizers return their gradients without applying them.

        Args:
            current: returns the capture for the micro-batch that this thread is tracing, or None in other threads.
        """
        with ExitStack() as undo:
            for optimizer in optimizers:
                keras = dialect_of(optimizer)
                captured = functools.partial(_captured, optimizer)
                replacement = while_tracing(keras.apply_of(optimizer), current, captured)
                undo.enter_context(keras.apply_replaced(optimizer, replacement))
                undo.enter_context(keras.scaling_replaced(optimizer, current, functools.partial(_scaled, optimizer)))
            yield

    def reason(self) -> str:
        """Return why the gradients cannot be added up and applied once, or an empty string if they can."""
        if not self.optimizers:
            return NEVER_APPLIED
        return "its second optimizer depends on weights that the first one updated" if self._late else ""

    @property
    def before(self) -> set[str]:
        """The names of the operations that existed at the first call."""
        return self._before or set()

    def _apply(self, optimizer: Any, grads: Any, trainable_variables: Any) -> None:
        grads = list(grads)
        self._note_order(grads)
        self.optimizers.append(optimizer)
        known = dialect_of(optimizer).trained_by(optimizer) if trainable_variables is None else trainable_variables
        self.variables.append(list(known))
        weight = None if self._summed or id(optimizer) in self._scaled else self._frame.share
        self.gradients.append([_times(gradient, weight) for gradient in grads])

    def _scale(self, optimizer: Any, loss: Any) -> Any:
        self._scaled.add(id(optimizer))
        return loss if self._summed else loss * tf.cast(self._frame.share, loss.dtype)

    def _note_order(self, grads: list[Any]) -> None:
        """Record the operations that precede the first call; gradients computed later may depend on its update."""
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


_MEANS = ("mean", "sum_over_batch_size", "auto")


class MicroBatchLosses:
    """Corrects the losses of one traced micro-batch, and records what the trace shows.

    Args:
        frame: the position of the micro-batch in the full batch, or None to only collect the divisors.
        eagerly: True if the step runs eagerly, so that a number's divisor is unknown.
        keras: the dialect of the model.
    """

    def __init__(self, frame: MicroBatchSlice | None, eagerly: bool = False, keras: Dialect = KERAS_3) -> None:
        self._frame, self._eagerly, self._keras = frame, eagerly, keras
        self.divisors: list[tf.Tensor] = []
        """This micro-batch's divisors, one for each reduction whose divisor depends on the data."""
        self.terms: list[tf.Tensor] = []
        """The loss terms that are plain numbers, before correction."""
        self.names: list[str] = []
        """The name of each term, in the same order as `terms`."""
        self._calls: list[type] = []
        """The classes of the nested losses being called, outermost first."""

    @staticmethod
    def replaced(
        current: Callable[[], MicroBatchLosses | None], keras: Dialect = KERAS_3
    ) -> AbstractContextManager[None]:
        """Within the block, correct Keras' reductions and the losses that layers list for a micro-batch.

        Args:
            current: returns the corrections for the micro-batch that this thread is tracing, or None in other threads.
            keras: the dialect of the model.
        """
        return keras.losses_replaced(current, LossHooks(MicroBatchLosses._reduced, _masked, _called, _listed))

    def _reduced(self, loss: Any, values: Any, weights: Any, reduction: str | None) -> Any:
        """Correct a loss that Keras computed by reducing values."""
        if tf.convert_to_tensor(values).shape.rank == 0:
            return self._term(loss, "a loss function that returns one number")
        if reduction in (None, "none", "sum"):
            return self._undivided(loss) if self._is_added(reduction) else loss
        if reduction == "mean_with_sample_weight" and weights is not None:
            return loss * tf.cast(self._share_of_divisor(tf.reduce_sum(weights)), loss.dtype)
        return loss

    def _is_added(self, reduction: str | None) -> bool:
        """True if the step adds this loss, which is not a mean, to its total loss unchanged.

        Otherwise, an outer loss reduces the result of an inner one, or the user's step reduces one number per entry.
        """
        outer = self._calls[-2:-1]
        return self._keras.total_loss in outer if outer else reduction == "sum"

    def _share_of_divisor(self, own: tf.Tensor) -> Any:
        """Return the factor that corrects a mean over the micro-batch's divisor; 1 for the full batch."""
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


def _masked(mine: MicroBatchLosses, weights: Any, mask: Any, reduction: str | None, guard: float) -> Any:
    if mask is None or reduction not in _MEANS:
        return weights
    valid = tf.reduce_sum(tf.cast(mask, tf.float64)) + guard
    return weights * tf.cast(mine._share_of_divisor(valid), weights.dtype)


@dataclass
class Handed:
    """Tensors that one traced micro-batch returns instead of updating metrics."""

    values: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    """The summed weight of each value; None for values without weights."""
    arguments: list[Any] = field(default_factory=list)
    """(args, kwargs) of each update of a foreign metric."""


class MicroBatchMetrics:
    """The metrics of one traced micro-batch, including those to be updated at the end."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.handed = Handed()
        self.means: list[Any] = []
        """The metric that each value in `handed` belongs to."""
        self.foreign: list[Any] = []
        """The metric that each pair of arguments in `handed` belongs to."""
        self._results: list[tuple[Any, Any]] = []

    @staticmethod
    @contextmanager
    def replaced(model: Any, current: Callable[[], MicroBatchMetrics | None]) -> Iterator[None]:
        """Within the block, record results, and make metrics of the two kinds return their values instead of updating.

        Args:
            current: returns the metrics of the micro-batch that this thread is tracing, or None in other threads.
        """
        with ExitStack() as undo:
            metrics = all_metrics(model)
            undo.enter_context(dialect_of(model).means_replaced(metrics, current, _updated_mean))
            for metric in metrics:
                result = while_tracing(metric.result, current, functools.partial(_noted_result, metric))
                undo.enter_context(replaced(metric, "result", result))
                if is_foreign(metric):
                    update = while_tracing(metric.update_state, current, functools.partial(_updated_foreign, metric))
                    undo.enter_context(replaced(metric, "update_state", update))
            yield

    def source_of(self, leaf: Any) -> Any:
        """Return the metric that returned this tensor as its result, or None if no metric did."""
        return next((metric for tensor, metric in self._results if tensor is leaf), None)

    def _takes(self, metric: Any, values: Any, sample_weight: Any) -> bool:
        """Record a value passed to a mean metric if the update must be deferred; return True in that case."""
        shape = tf.convert_to_tensor(values).shape
        is_number = shape.rank == 0 or (not tf.executing_eagerly() and shape.rank and shape[0] is not None)
        if not is_number and metric is not dialect_of(self._model).loss_tracker(self._model):
            return False
        self.means.append(metric)
        self.handed.values.append(tf.cast(values, tf.float64))
        self.handed.weights.append(None if sample_weight is None else _summed(sample_weight))
        return True

    def _take(self, metric: Any, args: Any, kwargs: Any) -> None:
        """Record the arguments of a foreign metric's update."""
        self.foreign.append(metric)
        self.handed.arguments.append((args, kwargs))

    def _note(self, metric: Any, value: Any) -> None:
        if not isinstance(value, dict):
            self._results.append((value, metric))


def _updated_mean(mine: MicroBatchMetrics, original: Any, metric: Any, values: Any, sample_weight: Any = None) -> Any:
    return None if mine._takes(metric, values, sample_weight) else original(metric, values, sample_weight=sample_weight)


def _updated_foreign(metric: Any, mine: MicroBatchMetrics, original: Any, *args: Any, **kwargs: Any) -> None:
    mine._take(metric, args, kwargs)


def _noted_result(metric: Any, mine: MicroBatchMetrics, original: Any, *args: Any, **kwargs: Any) -> Any:
    value = original(*args, **kwargs)
    mine._note(metric, value)
    return value


def all_metrics(model: Any) -> list[Any]:
    """List every metric of a model, including those in Keras' containers but not those inside a foreign metric."""
    found: list[Any] = []
    waiting = list(model.metrics)
    while waiting:
        metric = waiting.pop(0)
        if any(metric is known for known in found):
            continue
        found.append(metric)
        if not is_foreign(metric):
            waiting += list(getattr(metric, "metrics", []))
    return found


def is_foreign(metric: Any) -> bool:
    """True if code outside Keras updates the metric, so that it is unclear how it adds up over samples."""
    known = (*dialect_of(metric).packages, "oomph.")
    return not getattr(type(metric).update_state, "__module__", "").startswith(known)


def _summed(weight: Any) -> Any:
    return tf.reduce_sum(tf.cast(weight, tf.float64))
