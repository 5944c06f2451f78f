"""Seeds, counters and moving averages of a step in micro-batches: updated as by one full batch.

Every micro-batch starts from the state before the step. Averages are linear in the mean over a batch, so the
share-weighted mean of the micro-batches' results is the result of the full batch. Values that are equal in every
micro-batch stay bit-identical. A variance also needs the spread between the means of the micro-batches.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from oomph.keras_bridge.graph.compiled import compiled
from oomph.keras_bridge.graph.write_set import Slot, SmallState, components, handles_of
from oomph.keras_bridge.names.keras3 import KERAS


class MovingStatistics:
    """The seeds, counters and moving averages that a model's step updates.

    Args:
        model: the model, for the pairs of moving mean and variance of its BatchNormalization layers.
        slots: the state that the step writes besides weights.
        metrics: variables of metrics, which micro-batches update one after the other.
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
        """Remember the state that every micro-batch starts from."""
        self._before, self._after, self._shares = self._state.snapshot(), [], []

    def before_micro_batch(self) -> None:
        """Restore the state that the first micro-batch started from."""
        if self._after:
            self._state.restore(self._before)

    def after_micro_batch(self, share: float) -> None:
        """Record the state after a micro-batch that is `share` of the batch."""
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
    """The share-weighted mean over the first dimension; exactly the first value if all are equal, and for integers."""
    if not values.dtype.is_floating:
        return values[0]
    first = values[0]
    deviations = tf.cast(values, tf.float64) - tf.cast(first, tf.float64)
    return first + tf.cast(tf.tensordot(shares, deviations, 1), first.dtype)


def _mean_and_variance(model: Any, slots: list[Slot]) -> list[tuple[int, int, float]]:
    """(index of moving mean, index of moving variance, momentum) of each BatchNormalization layer."""
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
