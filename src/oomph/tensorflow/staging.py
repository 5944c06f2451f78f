"""Hold: the batch and the small state of the running step, kept inside the graph until the step is committed.

Keras takes the batch from the iterator inside the compiled function, so after a failed step it would be gone.
Staging areas (TensorFlow's StagingArea ops) keep references to the batch and to the values of the variables that the
step writes before its commit: no copy is made while the step runs, and nothing crosses to Python.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_data_flow_ops as data_flow

from oomph.tensorflow.written import Slot

_HOST = "/CPU:0"
_names = itertools.count()


class _Area:
    """One staging area on one device, for one list of dtypes."""

    def __init__(self, device: str, dtypes: Sequence[tf.DType]) -> None:
        self._device, self._dtypes = device, list(dtypes)
        self._name = f"oomph_hold_{next(_names)}"

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        with tf.device(self._device):
            return data_flow.stage(values=list(values), shared_name=self._name)

    def take(self) -> list[tf.Tensor] | None:
        """The oldest item held, or None; in eager mode only."""
        with tf.device(self._device):
            if int(data_flow.stage_size(dtypes=self._dtypes, shared_name=self._name)) == 0:
                return None
            return list(data_flow.unstage(dtypes=self._dtypes, shared_name=self._name))

    def clear(self) -> tf.Operation:
        with tf.device(self._device):
            return data_flow.stage_clear(dtypes=self._dtypes, shared_name=self._name)


class Hold:
    """What one compiled step function holds: its batch (on the host, where tf.data made it) and its small state."""

    def __init__(self, batch_dtypes: Sequence[tf.DType], state: Sequence[Slot]) -> None:
        by_device: dict[str, list[Slot]] = defaultdict(list)
        for slot in state:
            by_device[slot.device].append(slot)
        self._state = list(by_device.values())
        self._batch_area = _Area(_HOST, batch_dtypes) if batch_dtypes else None
        self._state_areas = [_Area(device, [s.dtype for s in slots]) for device, slots in by_device.items()]

    def put(self, batch: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Hold the batch and the state; the returned tensors are the batch, usable only once both are held."""
        with tf.control_dependencies(list(batch)):  # at the end of the data nothing may stay behind
            held = [area.put([s.read() for s in slots]) for area, slots in self._areas_with_state()]
        if self._batch_area is not None:
            held.append(self._batch_area.put(batch))
        with tf.control_dependencies(held):
            return [_identity_where_it_is(tensor) for tensor in batch]

    def clear(self) -> list[tf.Operation]:
        """Let go of everything held."""
        areas = [*self._state_areas, *([self._batch_area] if self._batch_area else [])]
        return [area.clear() for area in areas]

    def take_batch(self) -> list[tf.Tensor] | None:
        """The batch of the failed step; None when the step failed before it had one."""
        return self._batch_area.take() if self._batch_area is not None else None

    def roll_back(self) -> None:
        """Give the small state the values it had before the failed step."""
        for area, slots in self._areas_with_state():
            for slot, value in zip(slots, area.take() or [], strict=False):
                slot.assign(value)

    def _areas_with_state(self) -> list[tuple[_Area, list[Slot]]]:
        return list(zip(self._state_areas, self._state, strict=True))


def _identity_where_it_is(tensor: Any) -> tf.Tensor:
    with tf.device(_HOST):
        return tf.identity(tensor)
