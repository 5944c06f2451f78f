"""Combines the results of micro-batches into one step's results: gradients, metrics, logs and moving statistics.

For the moving statistics, every micro-batch starts from the state before the step. Averages are linear in the batch
mean, so the full batch's result is the mean of the micro-batches' results, weighted by their shares. Values that are
equal in every micro-batch stay bit-identical. A variance also needs the spread between the means of the micro-batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchOutputs, MicroBatchStep
from oomph.keras_bridge.batch.sparse_slices import ONE, JoinedSlices, Piece
from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.graph import Slot, SmallState, compiled, components, handles_of
from oomph.keras_bridge.names.keras3 import KERAS

Gradients = Sequence[Any]


class GradientSums:
    """The weighted sums of the gradients of a batch's micro-batches.

    Dense gradients are added up in one variable per trainable variable. This takes as much device memory as another set
    of gradients, but only after the first out-of-memory error. Sparse gradients (IndexedSlices, from Embedding layers)
    become the slices of the full batch (`sparse_slices.py`), since Keras' optimizers square and clip the slices before
    adding up those with equal indices.

    Args:
        replica: the replica that the gradients belong to.
    """

    def __init__(self, replica: int = 0) -> None:
        self._replica = replica
        self.pieces: dict[int, tuple[Piece, ...]] = {}
        """The pieces of each sparse gradient, keyed by its number. Gradients not listed have unknown pieces."""
        self._sums: list[tf.Variable | None] | None = None
        self._slices: dict[int, JoinedSlices] = {}

    @property
    def exist(self) -> bool:
        """True if the variables for the sums exist."""
        return bool(self._sums)

    def make(self, calls: Sequence[Gradients], variables: list[Any]) -> None:
        """Create the variables unless they exist. Eager mode only, since a trace that fails here cannot be repeated.

        Args:
            calls: the gradients of each optimizer call.
            variables: the variables that the gradients belong to, for all calls in order.
        """
        if self._sums is None:
            grads = [gradient for call in calls for gradient in call]
            self._sums = [
                _zeros_like(components(v)[self._replica]) if _is_dense(g) else None
                for g, v in zip(grads, variables, strict=True)
            ]

    def add(self, calls: Sequence[Gradients]) -> dict[str, tf.IndexedSlices]:
        """Add each dense gradient to its sum; return the sparse gradients, for `keep`."""
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
        """Store the sparse gradients of one micro-batch. Eager mode only.

        Args:
            sizes: the sizes of the pieces, for gradients that have several.
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
        """Return the sparse gradients of all micro-batches, in the form that the full batch would have produced."""
        return {str(index): slices.joined() for index, slices in self._slices.items()}

    def gradients(self, sparse: dict[str, tf.IndexedSlices]) -> list[Any]:
        """Return the sums in variable order, including the sparse gradients, with None where there is no gradient."""
        dense = [None if total is None else total.read_value() for total in self._sums or []]
        return [sparse.get(str(index), total) for index, total in enumerate(dense)]


def _is_dense(gradient: Any) -> bool:
    return gradient is not None and not isinstance(gradient, tf.IndexedSlices)


def _zeros_like(value: Any) -> tf.Variable:
    with tf.device(value.device):
        return tf.Variable(tf.zeros(value.shape, value.dtype), trainable=False)


class MergedMetrics:
    """Updates the metrics that must see a batch only once.

    Args:
        micro_step: the model's step on micro-batches, which determines the values that metrics are updated with.
    """

    def __init__(self, model: Any, micro_step: MicroBatchStep) -> None:
        self._model, self._micro_step, self._keras = model, micro_step, dialect_of(model)
        self._outputs: list[list[MicroBatchOutputs]] = []
        self._sizes: list[list[int]] = []
        self.summed: dict[str, list[bool]] = {}
        """The flags, for "values" and "logs", of the numbers that the probe found to be sums over samples."""
        self._compiled = compiled(self._update)

    def start(self) -> None:
        """Discard the micro-batches of an earlier, unfinished step."""
        self._outputs, self._sizes = [], []

    def kinds(self) -> tuple[list[bool], list[bool]]:
        """Return the flags that mark sums, for "values" and for "logs"."""
        return self.summed.get("values", []), self.summed.get("logs", [])

    def keep(self, outputs: list[MicroBatchOutputs], sizes: list[int]) -> None:
        """Store each replica's outputs for a micro-batch, without gradients, and its number of samples."""
        self._outputs.append([own._replace(gradients=[]) for own in outputs])
        self._sizes.append(sizes)

    def finish(self, size_is_known: bool) -> Any:
        """Update the metrics; return the step's result for the full batch in each replica.

        Args:
            size_is_known: whether Keras knows the size of every batch when it traces its own step. If so, and the model
                has several outputs, Keras passes that size as the weight to the metrics of the individual losses;
                otherwise it passes 1.
        """
        pairs = zip(zip(*self._outputs, strict=True), zip(*self._sizes, strict=True), strict=True)
        merged = [self._merged(parts, sizes, size_is_known) for parts, sizes in pairs]
        update = self._update if self._micro_step.eagerly else self._compiled
        results = update(merged)
        self.start()
        return [tf.nest.pack_sequence_as(self._micro_step.structure, leaves) for leaves in results]

    def _merged(self, parts: Sequence[MicroBatchOutputs], sizes: Sequence[int], size_is_known: bool) -> tuple[Any, ...]:
        """Merge one replica's outputs into values and weights for means, arguments, and logs."""
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
        is_of_a_loss = any(metric is one for one in self._keras.loss_metrics(self._model))
        return tf.constant(size, tf.float64) if weight is None and is_of_a_loss else weight

    def _update(self, merged: list[tuple[Any, ...]]) -> list[list[Any]]:
        return self._micro_step.replicas.run(self._update_replica, merged)

    def _update_replica(self, merged: tuple[Any, ...]) -> list[Any]:
        (values, weights, arguments, logs), metrics = merged, self._micro_step.metrics
        for metric, value, weight in zip(metrics.means, values, weights, strict=True):
            self._keras.update_mean(metric, value, weight)
        for metric, (args, kwargs) in zip(metrics.foreign, arguments, strict=True):
            metric.update_state(*args, **kwargs)
        pairs = zip(self._micro_step.sources, logs, strict=True)
        return [leaf if metric is None else metric.result() for metric, leaf in pairs]


def _columns(parts: Sequence[MicroBatchOutputs], field: str) -> list[tuple[Any, ...]]:
    """Return each output in this field as a column over the micro-batches."""
    return list(zip(*(getattr(part, field) for part in parts), strict=True))


def _merged_values(column: Sequence[Any], is_sum: bool, sizes: Sequence[int], batched: bool) -> Any:
    """Merge numbers weighted by the shares of their micro-batches, or concatenate per-sample losses."""
    if not batched:
        return _summed(column) if is_sum else _mean_of_column(column, sizes)
    total = sum(sizes) or 1
    pairs = zip(column, sizes, strict=True)
    return tf.concat([tf.constant(size / total, part.dtype) * part for part, size in pairs], 0)


def _merged(column: Sequence[Any], sizes: Sequence[int], batched: bool) -> Any:
    """Merge the values of micro-batches into the full batch's value; `batched` if they have an entry per sample."""
    first = column[0]
    if len(column) == 1 or not isinstance(first, (tf.Tensor, tf.RaggedTensor)):
        return column[-1]
    if batched:
        return tf.concat(column, axis=0)
    return _mean_of_column(column, sizes) if first.dtype.is_floating else column[-1]


def _summed(column: Sequence[Any]) -> Any:
    return tf.add_n([tf.convert_to_tensor(number) for number in column])


def _mean_of_column(column: Sequence[Any], sizes: Sequence[int]) -> Any:
    shares = tf.constant(sizes, tf.float64) / float(sum(sizes) or 1)
    stacked = tf.cast(tf.stack(column), tf.float64)
    return tf.cast(tf.tensordot(shares, stacked, 1), column[0].dtype)


class MovingStatistics:
    """The seeds, counters and moving averages that a model's step updates.

    Args:
        model: the model, which is searched for pairs of moving mean and variance in BatchNormalization layers.
        slots: the state that the step writes, apart from weights.
        metrics: the metrics' variables, which the micro-batches update one after the other.
    """

    def __init__(self, model: Any, slots: list[Slot], metrics: list[Any]) -> None:
        adding = handles_of(metrics)
        self.slots = [slot for slot in slots if id(slot.handle) not in adding]
        self._state = SmallState(self.slots)
        self._pairs = _mean_and_variance(model, self.slots)
        self._merge = compiled(self._merged)
        self._before: list[Any] = []
        self._after: list[list[Any]] = []
        self._shares: list[float] = []

    def start(self) -> None:
        """Record the state that every micro-batch starts from."""
        self._before, self._after, self._shares = self._state.snapshot(), [], []

    def before_micro_batch(self) -> None:
        """Go back to the state that the first micro-batch started from."""
        if self._after:
            self._state.restore(self._before)

    def after_micro_batch(self, share: float) -> None:
        """Record the state after a micro-batch that makes up `share` of the batch."""
        self._after.append(self._state.snapshot())
        self._shares.append(share)

    def finish(self) -> None:
        """Set the state to the result of the full batch."""
        if not self.slots or len(self._after) == 1:
            return
        stacked = [tf.stack(values) for values in zip(*self._after, strict=True)]
        shares = tf.constant(self._shares, tf.float64)
        self._state.restore(self._merge(self._before, stacked, shares))
        self._after = []

    def _merged(self, before: list[Any], after: list[Any], shares: Any) -> list[Any]:
        merged = [_mean(values, shares) for values in after]
        for mean, variance, momentum in self._pairs:
            fresh = tf.cast(after[mean], tf.float64) - momentum * tf.cast(before[mean], tf.float64)
            fresh /= 1 - momentum  # the means of the micro-batches themselves
            spread = _mean(tf.square(fresh - _mean(fresh, shares)), shares)
            merged[variance] += tf.cast((1 - momentum) * spread, merged[variance].dtype)
        return merged


def _mean(values: Any, shares: Any) -> Any:
    """Return the share-weighted mean over the first dimension, or the first value if all are equal or integers."""
    if not values.dtype.is_floating:
        return values[0]
    first = values[0]
    deviations = tf.cast(values, tf.float64) - tf.cast(first, tf.float64)
    return first + tf.cast(tf.tensordot(shares, deviations, 1), first.dtype)


def _mean_and_variance(model: Any, slots: list[Slot]) -> list[tuple[int, int, float]]:
    """Return (moving mean's index, moving variance's index, momentum) for each BatchNormalization layer."""
    index = {id(slot.handle): number for number, slot in enumerate(slots)}
    found: list[tuple[int, int, float]] = []
    for layer in KERAS.flatten_layers.call(model):
        mean, variance = getattr(layer, "moving_mean", None), getattr(layer, "moving_variance", None)
        momentum = getattr(layer, "momentum", None)
        if mean is None or variance is None or not isinstance(momentum, float) or momentum >= 1:
            continue
        for pair in zip(components(mean), components(variance), strict=True):
            handles = [id(one.handle) for one in pair]
            if all(handle in index for handle in handles):
                found.append((index[handles[0]], index[handles[1]], momentum))
    return found
