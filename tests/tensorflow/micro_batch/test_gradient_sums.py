"""The gradients of micro-batches are accumulated: dense ones in place, sparse ones side by side."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from oomph.exact_step.micro_batch.sums import GradientSums
from oomph.keras_bridge.batch.sparse_slices import Origin, Piece


def slices(rows, values):
    return tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([5, 2]))


def test_dense_gradients_are_summed_and_sparse_ones_concatenated_over_all_parts():
    sums, variables = GradientSums(), [keras.Variable(np.ones(shape, "float32")) for shape in ((2,), (5, 2), (2,))]
    assert not sums.exist
    calls = [[tf.constant([1.0, 2.0]), slices([1], [[1.0, 1.0]])], [None]]
    sums.make(calls, variables)
    assert sums.exist
    add = tf.function(sums.add)
    for factor in (1.0, 10.0):
        sums.keep(add([[factor * calls[0][0], slices([1, 3], [[factor] * 2] * 2)], [None]]))
    dense, sparse, missing = sums.gradients(sums.sparse())
    assert (dense.numpy().tolist(), missing) == ([11, 22], None)
    assert (sparse.indices.numpy().tolist(), sparse.values.numpy()[:, 0].tolist()) == ([1, 3, 1, 3], [1, 1, 10, 10])
    assert sparse.dense_shape.numpy().tolist() == [5, 2]


def test_sparse_gradients_with_distinct_indices_are_summed_by_index():
    sums, table = GradientSums(), keras.Variable(np.ones((5, 2), "float32"))
    sums.make([[slices([1], [[1.0, 1.0]])]], [table])
    sums.pieces = {0: (Piece(Origin.DISTINCT),)}
    for rows, values in [([3, 1], [[1.0, 2.0], [3.0, 4.0]]), ([1, 4], [[10.0, 20.0], [30.0, 40.0]])]:
        sums.keep(sums.add([[slices(rows, values)]]))
    (sparse,) = sums.gradients(sums.sparse())
    assert sparse.indices.numpy().tolist() == [3, 1, 4]
    assert sparse.values.numpy().tolist() == [[1, 2], [13, 24], [30, 40]]
    assert sparse.dense_shape.numpy().tolist() == [5, 2]


def test_cleared_gradient_sums_start_from_zero_again():
    sums, variable = GradientSums(), keras.Variable(np.ones(2, "float32"))
    for _ in range(2):
        sums.clear()
        sums.make([[tf.constant([1.0, 2.0])]], [variable])
        sums.keep(sums.add([[tf.constant([1.0, 2.0])]]))
        (total,) = sums.gradients(sums.sparse())
        assert total.numpy().tolist() == [1, 2]


def test_gradient_sums_have_the_dtype_of_their_variable():
    sums, variable = GradientSums(), keras.Variable(np.ones(1, "float64"))
    half = tf.constant([2.0**-12], tf.float16)
    sums.make([[half]], [variable])
    for _ in range(3):
        sums.add([[half]])
    sums.add([[tf.constant([1.0], tf.float16)]])
    (total,) = sums.gradients({})
    assert (total.dtype, total.numpy().tolist()) == (tf.float64, [1 + 3 * 2.0**-12])
