"""Merges what micro-batches hand over for metrics into one update for each metric, and merges the step's logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchOutputs, MicroBatchStep
from oomph.keras_bridge.graph.compiled import compiled
from oomph.keras_bridge.names.keras3 import KERAS


class MergedMetrics:
    """Updates the metrics that must count a batch once.

    Args:
        model: the compiled model.
        micro_step: its step on micro-batches, which defines what is handed over.
    """

    def __init__(self, model: Any, micro_step: MicroBatchStep) -> None:
        self._model, self._micro_step = model, micro_step
        self._outputs: list[list[MicroBatchOutputs]] = []
        self._sizes: list[list[int]] = []
        self.summed: dict[str, list[bool]] = {}
        """The numbers in "values" and "logs" that are sums over samples, as the probe finds out."""
        self._compiled = compiled(self._update)

    def start(self) -> None:
        """Forget the micro-batches of an earlier, unfinished step."""
        self._outputs, self._sizes = [], []

    def kinds(self) -> tuple[list[bool], list[bool]]:
        """Flags that mark the sums in "values" and in "logs"."""
        return self.summed.get("values", []), self.summed.get("logs", [])

    def keep(self, outputs: list[MicroBatchOutputs], sizes: list[int]) -> None:
        """Keep each replica's outputs of a micro-batch, without gradients, and its number of samples."""
        self._outputs.append([own._replace(gradients=[]) for own in outputs])
        self._sizes.append(sizes)

    def finish(self, size_is_known: bool) -> Any:
        """Update the metrics. Returns what the step returns on the full batch, for each replica.

        Args:
            size_is_known: whether Keras knows the size of every batch when it traces its own step. It then passes that
                size as the weight to the metrics of single losses of a model with several outputs; otherwise 1.
        """
        pairs = zip(zip(*self._outputs, strict=True), zip(*self._sizes, strict=True), strict=True)
        merged = [self._merged(parts, sizes, size_is_known) for parts, sizes in pairs]
        update = self._update if self._micro_step.eagerly else self._compiled
        results = update(merged)
        self.start()
        return [tf.nest.pack_sequence_as(self._micro_step.structure, leaves) for leaves in results]

    def _merged(self, parts: Sequence[MicroBatchOutputs], sizes: Sequence[int], size_is_known: bool) -> tuple[Any, ...]:
        """The merged outputs of one replica: values and weights for means, arguments, logs."""
        values = [
            _merged_values(column, is_sum, sizes, batched)
            for (column, is_sum), batched in zip(
                self._with_kind(parts, "values"), self._micro_step.batched_values, strict=True
            )
        ]
        weights = [None if column[0] is None else tf.add_n(list(column)) for column in _columns(parts, "weights")]
        if size_is_known:
            total = float(sum(sizes))
            weights = [self._weight(*pair, total) for pair in zip(self._micro_step.metrics.means, weights, strict=True)]
        nests = [part.arguments for part in parts]
        arguments = tf.nest.map_structure(
            lambda batched, *column: _merged(column, sizes, batched), self._micro_step.batched_arguments, *nests
        )
        logs = [
            _summed(column) if is_sum else _merged(column, sizes, batched)
            for (column, is_sum), batched in zip(
                self._with_kind(parts, "logs"), self._micro_step.batched_logs, strict=True
            )
        ]
        return values, weights, arguments, logs

    def _with_kind(self, parts: Sequence[MicroBatchOutputs], field: str) -> list[tuple[tuple[Any, ...], bool]]:
        columns = _columns(parts, field)
        return list(zip(columns, self.summed.get(field) or [False] * len(columns), strict=True))

    def _weight(self, metric: Any, weight: Any, size: float) -> Any:
        losses = getattr(KERAS.compile_loss.get(self._model), "metrics", [])
        is_of_a_loss = any(metric is one for one in losses)
        return tf.constant(size, tf.float64) if weight is None and is_of_a_loss else weight

    def _update(self, merged: list[tuple[Any, ...]]) -> list[list[Any]]:
        return self._micro_step.replicas.run(self._update_replica, merged)

    def _update_replica(self, merged: tuple[Any, ...]) -> list[Any]:
        (values, weights, arguments, logs), metrics = merged, self._micro_step.metrics
        mean = KERAS.mean.value()
        for metric, value, weight in zip(metrics.means, values, weights, strict=True):
            kind = mean if isinstance(metric, mean) else KERAS.sum.value()
            kind.update_state(metric, value, sample_weight=weight)
        for metric, (args, kwargs) in zip(metrics.foreign, arguments, strict=True):
            metric.update_state(*args, **kwargs)
        pairs = zip(self._micro_step.sources, logs, strict=True)
        return [leaf if metric is None else metric.result() for metric, leaf in pairs]


def _columns(parts: Sequence[MicroBatchOutputs], field: str) -> list[tuple[Any, ...]]:
    """The outputs in this field, each as a column over the micro-batches."""
    return list(zip(*(getattr(part, field) for part in parts), strict=True))


def _merged_values(column: Sequence[Any], is_sum: bool, sizes: Sequence[int], batched: bool) -> Any:
    """Numbers merged by the share of their micro-batch, or losses of single samples concatenated."""
    if not batched:
        return _summed(column) if is_sum else _mean(column, sizes)
    total = sum(sizes) or 1
    pairs = zip(column, sizes, strict=True)
    return tf.concat([tf.constant(size / total, part.dtype) * part for part, size in pairs], 0)


def _merged(column: Sequence[Any], sizes: Sequence[int], batched: bool) -> Any:
    """The full-batch value of the micro-batches' values; `batched`: they have an entry per sample."""
    first = column[0]
    if len(column) == 1 or not isinstance(first, (tf.Tensor, tf.RaggedTensor)):
        return column[-1]
    if batched:
        return tf.concat(column, axis=0)
    return _mean(column, sizes) if first.dtype.is_floating else column[-1]


def _summed(column: Sequence[Any]) -> Any:
    return tf.add_n([tf.convert_to_tensor(number) for number in column])


def _mean(column: Sequence[Any], sizes: Sequence[int]) -> Any:
    shares = tf.constant(sizes, tf.float64) / float(sum(sizes) or 1)
    stacked = tf.cast(tf.stack(column), tf.float64)
    return tf.cast(tf.tensordot(shares, stacked, 1), column[0].dtype)
