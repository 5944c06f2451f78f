"""Batches of every structure, sliced without losing a sample."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

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
def test_a_batch_of_parts_of_different_sizes_has_no_size(other):
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
