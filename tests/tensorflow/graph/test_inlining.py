"""A function that was traced once, copied operation by operation into other graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.graph import inlined


def concrete(function, *specs):
    return tf.function(function).get_concrete_function(*specs)


def test_an_inlined_copy_computes_the_same_without_a_call():
    weight = tf.Variable([[2.0], [3.0]])
    traced = concrete(lambda x: tf.matmul(x, weight) + 1, tf.TensorSpec([None, 2]))

    @tf.function
    def outer(x):
        return inlined(traced)(x) * 2

    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(outer(x), traced(x) * 2)
    kinds = {operation.type for operation in outer.get_concrete_function(x).graph.get_operations()}
    assert "MatMul" in kinds
    assert not {kind for kind in kinds if kind.endswith("PartitionedCall")}
    weight.assign([[0.0], [1.0]])
    np.testing.assert_array_equal(outer(x), traced(x) * 2)


@pytest.mark.parametrize(
    "data",
    [
        (tf.constant([1.0]), tf.constant([2.0])),
        {"b": tf.constant([1.0]), "a": (tf.constant([2.0]), [tf.constant([3.0])])},
        (tf.constant([1.0]), None, tf.constant([2.0])),
        (tf.ragged.constant([[1.0], [2.0, 3.0]]), tf.constant([2.0])),
        (tf.sparse.from_dense([[1.0, 0.0]]), tf.constant([2.0])),
    ],
)
def test_inlining_keeps_nested_arguments_and_results(data):
    def function(data):
        return {
            "first": data,
            "sum": tf.add_n(
                [tf.reduce_sum(t) for t in tf.nest.flatten(data, True) if t is not None and t.dtype == tf.float32]
            ),
        }

    traced = tf.function(function).get_concrete_function(data)

    @tf.function
    def outer(data):
        return inlined(traced)(data)

    ours, theirs = outer(data), function(data)
    tf.nest.assert_same_structure(ours, theirs, expand_composites=True)
    for one, other in zip(tf.nest.flatten(ours, True), tf.nest.flatten(theirs, True), strict=True):
        if one is not None:
            np.testing.assert_array_equal(one, other)


def test_unread_assignments_are_run_once_per_inlined_call():
    count = tf.Variable(0)

    def function(x):
        count.assign_add(1)
        return x

    traced = concrete(function, tf.TensorSpec([]))
    count.assign(0)
    outer = tf.function(lambda x: inlined(traced)(inlined(traced)(x)))
    outer(tf.constant(1.0))
    assert int(count) == 2


def test_branches_and_loops_are_copied_with_their_functions():
    def function(x):
        x = tf.cond(x > 0, lambda: x * 2, lambda: x * 3)
        return tf.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y + x), (0, x))[1]

    traced = concrete(function, tf.TensorSpec([]))
    outer = tf.function(inlined(traced))
    for value in (1.0, -1.0):
        assert float(outer(tf.constant(value))) == float(traced(tf.constant(value)))


def test_non_tensor_results_are_kept_unchanged():
    traced = concrete(lambda x: (x, None, ()), tf.TensorSpec([]))
    value, nothing, empty = tf.function(inlined(traced))(tf.constant(2.0))
    assert (float(value), nothing, empty) == (2.0, None, ())
