"""Batches of any structure are sliced without losing a sample; arrays that a step does not accept stay in Python."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.step.out_of_memory import Failed, attempt
from oomph.keras_bridge.batch import batches

X = np.arange(20, dtype="float32").reshape(10, 2)
DENSE = (tf.constant(X), tf.constant(X[:, 0]))
NESTED = ({"a": tf.constant(X), "b": [tf.constant(X), None]}, tf.constant(X[:, 0]), None)
RAGGED = (tf.ragged.constant([[1.0] * n for n in (1, 0, 3, 2, 5, 1, 1, 0, 2, 4)]), tf.constant(X))
SPARSE = (tf.sparse.from_dense(X), tf.constant(X))


@pytest.mark.parametrize("batch", [DENSE, NESTED, RAGGED, SPARSE], ids=["dense", "nested", "ragged", "sparse"])
@pytest.mark.parametrize("size", [1, 3, 5, 10])
def test_joined_parts_equal_the_batch(batch, size):
    parts = [batches.part_of(batch, start, min(10, start + size)) for start in range(0, 10, size)]
    for index, whole in enumerate(tf.nest.flatten(batch)):
        if whole is None:
            assert all(tf.nest.flatten(part)[index] is None for part in parts)
            continue
        joined = [tf.nest.flatten(part)[index] for part in parts]
        np.testing.assert_array_equal(dense(whole), np.concatenate([dense(p, dense(whole).shape[1:]) for p in joined]))


def dense(part, shape=None):
    if isinstance(part, tf.SparseTensor):
        return tf.sparse.to_dense(part).numpy()
    if isinstance(part, tf.RaggedTensor):
        return part.to_tensor(shape=None if shape is None else (None, *shape)).numpy()
    return part.numpy()


@pytest.mark.parametrize("batch", [DENSE, NESTED, RAGGED, SPARSE], ids=["dense", "nested", "ragged", "sparse"])
def test_batch_size_is_the_number_of_samples_in_its_tensors(batch):
    assert batches.size_of(batch) == 10


@pytest.mark.parametrize("other", [tf.constant(X[:4]), tf.constant(3.0)])
def test_batch_size_is_unknown_if_its_tensors_disagree(other):
    assert batches.size_of((tf.constant(X), other)) is None


@pytest.mark.parametrize("batch", [DENSE, NESTED, RAGGED, SPARSE], ids=["dense", "nested", "ragged", "sparse"])
def test_a_batch_rebuilt_from_its_tensors_is_unchanged(batch):
    again = batches.with_tensors(batch, batches.tensors_of(batch))
    tf.nest.assert_same_structure(again, batch, expand_composites=True)
    for ours, theirs in zip(batches.tensors_of(again), batches.tensors_of(batch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_empty_optional_becomes_none():
    batch = (tf.constant(X), tf.experimental.Optional.empty(tf.TensorSpec((), tf.float32)))
    assert batches.without_optionals(batch)[1] is None
    assert batches.without_optionals(batch)[0] is batch[0]


def test_only_numeric_arrays_stay_on_the_host():
    x, words = np.ones((4, 2), "float32"), np.array(["a", "b", "c", "d"])
    held = batches.held(({"x": x, "words": words}, [1.0, 2.0, 3.0, 4.0], None))
    assert held[0]["x"] is x
    assert tf.is_tensor(held[0]["words"])
    assert all(tf.is_tensor(number) for number in held[1])
    assert held[2] is None


def test_host_arrays_become_equal_device_tensors():
    x = np.arange(12).reshape(6, 2).astype("float64")[::2]
    given = batches.on_device((x, tf.constant([1.0]), None))
    np.testing.assert_array_equal(given[0], x)
    assert given[0].dtype == tf.float64
    assert given[2] is None
    assert batches.specs_of((x, None)) == (tf.TensorSpec((3, 2), tf.float64), None)


def test_array_parts_and_samples_match_tensors():
    x = np.arange(20).reshape(10, 2)
    for take in (lambda batch: batches.part_of(batch, 3, 7), lambda batch: batches.sample_of(batch, 4)):
        ours, theirs = take((x, None)), take((tf.constant(x), None))
        assert tf.is_tensor(ours[0])
        assert ours[0].dtype == theirs[0].dtype
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_failed_call_keeps_no_references_to_its_arguments():
    """TensorFlow removes its frames from the traceback, and those frames hold the tensors."""

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
