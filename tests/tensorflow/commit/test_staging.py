"""The batch and small state are held in the graph until the step has finished."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.commit import Hold
from oomph.keras_bridge.graph import Slot

X = np.arange(6, dtype="float32")


@pytest.fixture
def counter():
    return tf.Variable(0, dtype=tf.int64)


@pytest.fixture
def guarded(counter):
    """Return a step that counts, then fails for negative batches, and its hold."""
    hold = Hold([tf.float32], [Slot.of(counter)])

    @tf.function
    def step(iterator):
        batch = next(iterator)
        (held,) = hold.put([batch])
        with tf.control_dependencies([held]):
            counted = counter.assign_add(1)
        with tf.control_dependencies([counted, tf.debugging.Assert(tf.reduce_min(held) >= 0, ["no memory"])]):
            total = tf.reduce_sum(held)
        with tf.control_dependencies([total]):
            released = hold.clear()
        with tf.control_dependencies(released):
            return tf.identity(total)

    return step, hold


def batches(*signs):
    return iter(tf.data.Dataset.from_tensor_slices(np.stack([sign * (X + 1) for sign in signs])))


def test_successful_step_leaves_nothing_behind(guarded, counter):
    step, hold = guarded
    iterator = batches(1, 1)
    assert (float(step(iterator)), float(step(iterator))) == (21, 21)
    assert hold.take_batch() is None
    assert int(counter) == 2


def test_failed_step_leaves_its_batch_behind_and_can_be_rolled_back(guarded, counter):
    step, hold = guarded
    iterator = batches(1, -1, 1)
    step(iterator)
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(iterator)
    (batch,) = hold.take_batch()
    np.testing.assert_array_equal(batch, -(X + 1))
    hold.roll_back()
    assert int(counter) == 1
    assert float(step(iterator)) == 21
    assert int(counter) == 2


def test_end_of_the_data_neither_holds_a_batch_nor_counts_a_step(guarded, counter):
    step, hold = guarded
    iterator = batches(1)
    step(iterator)
    with pytest.raises(tf.errors.OutOfRangeError):
        step(iterator)
    assert hold.take_batch() is None
    assert int(counter) == 1
