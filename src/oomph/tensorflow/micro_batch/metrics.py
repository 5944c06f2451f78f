"""The metrics of a step in micro-batches: each counts its batch once.

Most of Keras' metrics add up over samples, so the parts may update them one after the other. Two kinds do not, and are
updated once, with what the parts have handed over:

- means of plain numbers (the loss tracker, custom metric functions that return one number): a part counts as much as
  a whole batch there, so the numbers are merged first, by the share of each part;
- metrics of classes that are not Keras' own: they get the samples of all parts together.

The step returns what `metric.result()` said within it; those values are read again after the last update.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.runtime.patching import replaced, while_tracing


@dataclass
class Handed:
    """What one traced part hands over instead of updating metrics. Tensors, fit to be returned from a function."""

    values: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    """For each value its weight, summed up; None where the metric was given none."""
    arguments: list[Any] = field(default_factory=list)
    """For each update of a foreign metric (args, kwargs)."""


class MicroBatchMetrics:
    """The metrics of one traced part, and which of them are to be updated at the end."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.handed = Handed()
        self.means: list[Any] = []
        """The metric of each value handed over."""
        self.foreign: list[Any] = []
        """The metric of each pair of arguments handed over."""
        self._results: list[tuple[Any, Any]] = []

    @staticmethod
    @contextmanager
    def replaced(model: Any, current: Callable[[], MicroBatchMetrics | None]) -> Iterator[None]:
        """Within the block, the two kinds hand over instead of being updated, and results are noted.

        Args:
            current: gives the metrics of the part that this thread traces; None in others.
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
        """The metric whose result this tensor is; None when it is something else."""
        return next((metric for tensor, metric in self._results if tensor is leaf), None)

    def _takes(self, metric: Any, values: Any, sample_weight: Any) -> bool:
        """Whether a mean is handed over; noted then."""
        shape = tf.convert_to_tensor(values).shape
        is_number = shape.rank == 0 or (not tf.executing_eagerly() and shape.rank and shape[0] is not None)
        if not is_number and metric is not KERAS.loss_tracker.get(self._model):
            return False
        self.means.append(metric)
        self.handed.values.append(tf.cast(values, tf.float64))
        self.handed.weights.append(None if sample_weight is None else _summed(sample_weight))
        return True

    def _take(self, metric: Any, args: Any, kwargs: Any) -> None:
        """Note what a foreign metric is to be updated with."""
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
    """Every metric of a model, those inside Keras' containers too; a foreign metric stands for what is in it."""
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
    """Whether it is not known how a metric adds up: its own code updates it, and that is not of Keras."""
    return not getattr(type(metric).update_state, "__module__", "").startswith(("keras.", "oomph."))


def _summed(weight: Any) -> Any:
    return tf.reduce_sum(tf.cast(weight, tf.float64))
