"""Batches of arrays: what a step does not take stays in Python."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import numpy as np
import tensorflow as tf

from oomph.exact_step.step.out_of_memory import Failed, attempt
from oomph.keras_bridge.batch import batches


def test_numeric_arrays_stay_on_the_host_and_all_else_becomes_tensors():
    x, words = np.ones((4, 2), "float32"), np.array(["a", "b", "c", "d"])
    held = batches.held(({"x": x, "words": words}, [1.0, 2.0, 3.0, 4.0], None))
    assert held[0]["x"] is x
    assert tf.is_tensor(held[0]["words"])
    assert all(tf.is_tensor(number) for number in held[1])
    assert held[2] is None


def test_host_arrays_become_tensors_of_equal_values_on_the_device():
    x = np.arange(12).reshape(6, 2).astype("float64")[::2]
    given = batches.on_device((x, tf.constant([1.0]), None))
    np.testing.assert_array_equal(given[0], x)
    assert given[0].dtype == tf.float64
    assert given[2] is None
    assert batches.specs_of((x, None)) == (tf.TensorSpec((3, 2), tf.float64), None)


def test_parts_and_samples_of_arrays_equal_those_of_tensors():
    x = np.arange(20).reshape(10, 2)
    for take in (lambda batch: batches.part_of(batch, 3, 7), lambda batch: batches.sample_of(batch, 4)):
        ours, theirs = take((x, None)), take((tf.constant(x), None))
        assert tf.is_tensor(ours[0])
        assert ours[0].dtype == theirs[0].dtype
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_a_failed_call_leaves_no_reference_to_its_arguments():
    """TensorFlow takes its frames out of the traceback, and they hold the tensors."""

    @tf.function
    def failing(x):
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_sum(x) < 0, [x])]):
            return tf.identity(x)

    def without_memory(x):
        try:
            failing(x)
        except tf.errors.InvalidArgumentError as error:
            raise tf.errors.ResourceExhaustedError(None, None, "ran out of memory") from error

    def failed_call():
        x = tf.ones((3, 3))
        return attempt(partial(without_memory, x)), weakref.ref(x)

    failed, held = failed_call()
    assert isinstance(failed, Failed)
    gc.collect()
    assert held() is None
