"""The state that a step moves besides weights and metrics, after its micro-batches: as if the batch had moved it once.

Seeds, counters, moving averages. Every part starts from the state before the step. Averages are linear in the mean over
a batch, so the share-weighted mean of the parts' results is the result of the batch; what came out the same in
every part stays as it is to the last bit. A variance needs one thing more: the spread between the parts' means.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from oomph.tensorflow.graph.compiled import compiled
from oomph.tensorflow.graph.write_set import Slot, SmallState, components, handles_of
from oomph.tensorflow.names.keras3 import KERAS


class MovingStatistics:
    """The moving state of a model's step.

    Args:
        model: the model, for the pairs of moving mean and variance of its BatchNormalization layers.
        slots: what the step writes besides weights.
        metrics: variables of metrics, which the parts add to one after the other.
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
        """Remember the state that every part starts from."""
        self._before, self._after, self._shares = self._state.snapshot(), [], []

    def before_micro_batch(self) -> None:
        """Give the next part the state that the first one had."""
        if self._after:
            self._state.restore(self._before)

    def after_micro_batch(self, share: float) -> None:
        """Note what a part that makes up `share` of the batch has made of the state."""
        self._after.append(self._state.snapshot())
        self._shares.append(share)

    def finish(self) -> None:
        """Set the state to what the whole batch would have made of it."""
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
            fresh /= 1 - momentum  # the means of the parts themselves
            spread = _mean(tf.square(fresh - _mean(fresh, shares)), shares)
            merged[variance] += tf.cast((1 - momentum) * spread, merged[variance].dtype)
        return merged


def _mean(values: Any, shares: Any) -> Any:
    """The mean over the first dimension; exactly the first value where all are the same, and for whole numbers."""
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
