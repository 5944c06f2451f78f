"""Hold: keeps the batch and the small state of the running step inside the graph until the step is committed.

Keras takes the batch from the iterator inside the compiled function, so a failed step would lose it. Staging areas
(TensorFlow's StagingArea ops) keep references to the batch and to the values of the variables that the step writes
before its commit. Nothing is copied while the step runs, and nothing crosses to Python.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.graph.write_set import Slot
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_HOST = "/CPU:0"
_names = itertools.count()


class _Area:
    """One staging area on one device, for one list of dtypes."""

    def __init__(self, device: str, dtypes: Sequence[tf.DType]) -> None:
        self._device, self._dtypes = device, list(dtypes)
        self._name = f"oomph_hold_{next(_names)}"

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        with tf.device(self._device):
            return TENSORFLOW.stage.value()(values=list(values), shared_name=self._name)

    def take(self) -> list[tf.Tensor] | None:
        """Take out the oldest item held; None if there is none. Eager mode only."""
        with tf.device(self._device):
            if int(TENSORFLOW.stage_size.value()(dtypes=self._dtypes, shared_name=self._name)) == 0:
                return None
            return list(TENSORFLOW.unstage.value()(dtypes=self._dtypes, shared_name=self._name))

    def clear(self) -> tf.Operation:
        with tf.device(self._device):
            return TENSORFLOW.stage_clear.value()(dtypes=self._dtypes, shared_name=self._name)


class Hold:
    """The batch and state that one compiled step function holds while it runs.

    Args:
        batch_dtypes: the dtypes of its batch, which stays on the host, where tf.data created it.
        state: variables to roll back when the step fails.
        pinned: variables whose buffers must stay alive when the step fails (see `full_batch_step.py` on XLA).
    """

    def __init__(self, batch_dtypes: Sequence[tf.DType], state: Sequence[Slot], pinned: Sequence[Slot] = ()) -> None:
        self._batch_area = _Area(_HOST, batch_dtypes) if batch_dtypes else None
        self._state = _areas_of(state)
        self._pinned = _areas_of(pinned)

    def put(self, batch: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Hold the batch and the state. Returns the tensors of the batch, usable only once both are held."""
        with tf.control_dependencies(list(batch)):  # at the end of the data, nothing must stay held
            held = [area.put([slot.read() for slot in slots]) for area, slots in [*self._state, *self._pinned]]
        if self._batch_area is not None:
            held.append(self._batch_area.put(batch))
        with tf.control_dependencies(held):
            return [_identity_where_it_is(tensor) for tensor in batch]

    def clear(self) -> list[tf.Operation]:
        """Add operations that release everything held, and return them."""
        areas = [area for area, _ in [*self._state, *self._pinned]]
        return [area.clear() for area in [*areas, *([self._batch_area] if self._batch_area else [])]]

    def take_batch(self) -> list[tf.Tensor] | None:
        """Take out the batch of the failed step; None if the step failed before it had a batch."""
        return self._batch_area.take() if self._batch_area is not None else None

    def roll_back(self) -> None:
        """Restore the small state from before the failed step."""
        for area, slots in self._state:
            for slot, value in zip(slots, area.take() or [], strict=False):
                slot.assign(value)


def _areas_of(slots: Sequence[Slot]) -> list[tuple[_Area, list[Slot]]]:
    """One staging area for each device that holds slots, each with its slots."""
    by_device: dict[str, list[Slot]] = defaultdict(list)
    for slot in slots:
        by_device[slot.device].append(slot)
    return [(_Area(device, [slot.dtype for slot in group]), group) for device, group in by_device.items()]


def _identity_where_it_is(tensor: Any) -> tf.Tensor:
    with tf.device(_HOST):
        return tf.identity(tensor)
