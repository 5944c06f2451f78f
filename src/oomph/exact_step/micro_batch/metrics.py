"""The metrics of a step in micro-batches: each counts the batch once.

Most Keras metrics add up over samples, so the micro-batches may update them one after the other. Two kinds do not. They
are updated once, with what the micro-batches hand over:

- means of plain numbers (the loss tracker, custom metric functions that return one number): a micro-batch would count
  as much as a full batch, so the numbers are first merged by the share of each micro-batch;
- metrics of classes that are not Keras' own: they get the samples of all micro-batches together.

The step returns values of `metric.result()`; these are read again after the last update.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import replaced, while_tracing


@dataclass
class Handed:
    """Tensors that one traced micro-batch returns instead of updating metrics."""

    values: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    """For each value, its summed weight; None if the metric was given no weight."""
    arguments: list[Any] = field(default_factory=list)
    """(args, kwargs) of each foreign metric update."""


class MicroBatchMetrics:
    """The metrics of one traced micro-batch, and which of them to update at the end."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.handed = Handed()
        self.means: list[Any] = []
        """The metric that each value handed over belongs to."""
        self.foreign: list[Any] = []
        """The metric that each pair of arguments handed over belongs to."""
        self._results: list[tuple[Any, Any]] = []

    @staticmethod
    @contextmanager
    def replaced(model: Any, current: Callable[[], MicroBatchMetrics | None]) -> Iterator[None]:
        """Within the block, metrics of the two kinds hand over instead of updating, and results are recorded.

        Args:
            current: returns the metrics of the micro-batch that this thread traces; None in other threads.
        """
        with ExitStack() as undo:
            for cls in (KERAS.mean.value(), KERAS.sum.value()):
                undo.enter_context(
                    replaced(cls, "update_state", while_tracing(cls.update_state, current, _updated_mean))
                )
            for metric in all_metrics(model):
                result = while_tracing(metric.result, current, functools.partial(_noted_result, metric))
                undo.enter_context(replaced(metric, "result", result))
                if is_foreign(metric):
                    update = while_tracing(metric.update_state, current, functools.partial(_updated_foreign, metric))
                    undo.enter_context(replaced(metric, "update_state", update))
            yield

    def source_of(self, leaf: Any) -> Any:
        """The metric whose result this tensor is; None if it is no metric's result."""
        return next((metric for tensor, metric in self._results if tensor is leaf), None)

    def _takes(self, metric: Any, values: Any, sample_weight: Any) -> bool:
        """True if a mean is to be handed over; if so, record it."""
        shape = tf.convert_to_tensor(values).shape
        is_number = shape.rank == 0 or (not tf.executing_eagerly() and shape.rank and shape[0] is not None)
        if not is_number and metric is not KERAS.loss_tracker.get(self._model):
            return False
        self.means.append(metric)
        self.handed.values.append(tf.cast(values, tf.float64))
        self.handed.weights.append(None if sample_weight is None else _summed(sample_weight))
        return True

    def _take(self, metric: Any, args: Any, kwargs: Any) -> None:
        """Record the arguments of an update of a foreign metric."""
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
    """Every metric of a model, including those in Keras' containers, but not those inside a foreign metric."""
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
    """True if code outside Keras updates a metric, so that it is unknown how the metric adds up."""
    return not getattr(type(metric).update_state, "__module__", "").startswith(("keras.", "oomph."))


def _summed(weight: Any) -> Any:
    return tf.reduce_sum(tf.cast(weight, tf.float64))
