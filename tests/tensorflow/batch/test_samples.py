"""Samples from any source, in batches: none lost, none repeated, in order, each read once."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.batch.samples import in_batches

X = np.arange(20, dtype="float32").reshape(10, 2)
Y = np.arange(10)
Pair = namedtuple("Pair", "x y")
SOURCES = {
    "pipeline": lambda: tf.data.Dataset.from_tensor_slices(X),
    "array": lambda: X,
    "tensor": lambda: tf.constant(X),
    "variable": lambda: tf.Variable(X),
    "list": lambda: list(X),
    "list of lists": lambda: X.tolist(),
    "generator": lambda: (row for row in X),
    "tensors": lambda: iter(tf.constant(X)),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(("size", "sizes"), [(1, [1] * 10), (4, [4, 4, 2]), (5, [5, 5]), (100, [10])])
def test_every_sample_is_batched_once_and_in_order(source, size, sizes):
    read = list(in_batches(source(), size))
    assert [batch.shape[0] for batch in read] == sizes
    assert all(tf.is_tensor(batch) for batch in read)
    np.testing.assert_array_equal(np.concatenate(read), X)


@pytest.mark.parametrize(
    "nest",
    [(X, Y), {"x": X, "y": Y}, Pair(X, Y), (X, None, {"y": Y}), (X, list(Y))],
    ids=["tuple", "dict", "namedtuple", "None inside", "list inside"],
)
def test_batches_of_nested_arrays_keep_their_structure_and_alignment(nest):
    first, second, third = in_batches(nest, 4)
    tf.nest.assert_same_structure(first, tf.nest.map_structure(lambda _: 0, third))
    leaves = [leaf for leaf in tf.nest.flatten(second) if leaf is not None]
    np.testing.assert_array_equal(leaves[0], X[4:8])
    np.testing.assert_array_equal(leaves[1], Y[4:8])
    assert type(first) is type(nest)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: (X[i], Y[i]),
        lambda i: {"x": X[i], "y": Y[i]},
        lambda i: Pair(X[i], Y[i]),
        lambda i: (tf.constant(X[i]), {"y": Y[i]}, None),
    ],
)
def test_batches_keep_the_structure_of_their_elements(make):
    batches = list(in_batches((make(i) for i in range(10)), 4))
    assert type(batches[0]) is type(make(0))
    leaves = [[leaf for leaf in tf.nest.flatten(batch) if leaf is not None] for batch in batches]
    np.testing.assert_array_equal(np.concatenate([parts[0] for parts in leaves]), X)
    np.testing.assert_array_equal(np.concatenate([parts[1] for parts in leaves]), Y)
    assert leaves[0][1].dtype == Y.dtype


def test_ragged_and_sparse_tensors_are_sliced():
    ragged, sparse = tf.ragged.constant([[1], [2, 3], []]), tf.sparse.from_dense(X[:3])
    first, last = in_batches((ragged, sparse), 2)
    assert first[0].to_list() + last[0].to_list() == ragged.to_list()
    assert tf.sparse.to_dense(last[1]).numpy().tolist() == X[2:3].tolist()


@pytest.mark.parametrize(
    "empty", [[], iter(()), X[:0], (X[:0], Y[:0]), tf.data.Dataset.from_tensor_slices(X[:0]), {"x": []}]
)
def test_empty_data_yields_no_batches(empty):
    assert list(in_batches(empty, 4)) == []


def test_generator_is_read_only_as_far_as_needed():
    read = []
    batches = in_batches((read.append(i) or i for i in range(10**9)), 3)
    assert read == []
    np.testing.assert_array_equal(next(batches), [0, 1, 2])
    assert read == [0, 1, 2]


@pytest.mark.parametrize("wrong", [(X, Y[:9]), {"x": X, "y": np.float32(1)}, np.float32(1), (), (X, 3.0)])
def test_arrays_with_different_sample_counts_are_rejected_immediately(wrong):
    with pytest.raises(ValueError, match="first dimension"):
        in_batches(wrong, 4)


@pytest.mark.parametrize("wrong", [3, None, "text", b"bytes", object()])
def test_data_without_samples_is_rejected_immediately(wrong):
    with pytest.raises(TypeError, match=type(wrong).__name__):
        in_batches(wrong, 4)


@pytest.mark.parametrize("second", [(1, 2, 3), {"a": 1}, None, 4])
def test_elements_with_different_structures_are_rejected(second):
    with pytest.raises(ValueError, match="structure"):
        list(in_batches([(1, 2), second], 4))
