"""Nothing is assigned before every gradient exists."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.commit import behind_barrier
from oomph.keras_bridge.runtime.patching import replaced


@pytest.fixture
def commits():
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def optimizer_for(variables, **options):
    optimizer = keras.optimizers.Adam(0.1, **options)
    optimizer.build(variables)
    return optimizer


def test_a_method_is_replaced_on_one_object_and_only_within_the_block():
    one, other = keras.optimizers.SGD(), keras.optimizers.SGD()
    with replaced(one, "apply", lambda *a: "ours"):
        assert one.apply([]) == "ours"
        assert "apply" not in vars(other)
    assert "apply" not in vars(one)
    assert type(one).apply is type(other).apply


def test_method_is_restored_after_an_error():
    optimizer = keras.optimizers.SGD()
    with pytest.raises(ZeroDivisionError), replaced(optimizer, "apply", lambda *a: None):
        raise ZeroDivisionError
    assert "apply" not in vars(optimizer)


@pytest.mark.parametrize("options", [{}, {"use_ema": True, "weight_decay": 0.1}, {"global_clipnorm": 0.5}])
def test_update_behind_the_barrier_matches_keras(commits, options):
    def train(behind):
        variables = [keras.Variable(np.ones((2, 3), "float32")), keras.Variable(np.full((3,), 2.0, "float32"))]
        optimizer = optimizer_for(variables, **options)
        apply = behind_barrier(optimizer, commits) if behind else optimizer.apply

        @tf.function
        def step():
            apply([tf.ones((2, 3)) * 0.3, tf.ones((3,))], variables)

        for _ in range(3):
            step()
        return [np.asarray(v) for v in [*variables, *optimizer.variables]]

    for ours, plain in zip(train(True), train(False), strict=True):
        np.testing.assert_array_equal(ours, plain)
    assert int(commits.numpy()) == 3


def test_a_failing_gradient_leaves_all_variables_unchanged(commits):
    variables = [keras.Variable(np.ones((2,), "float32")) for _ in range(3)]
    optimizer = optimizer_for(variables)

    @tf.function
    def step(good):
        last = tf.ones((2,))
        with tf.control_dependencies([tf.debugging.Assert(good, ["no memory"])]):
            first = tf.identity(last)
        behind_barrier(optimizer, commits)([first, last, last], variables)

    step(tf.constant(True))
    before = [np.asarray(v) for v in [*variables, *optimizer.variables]]
    for _ in range(20):
        with pytest.raises(tf.errors.InvalidArgumentError):
            step(tf.constant(False))
    for value, variable in zip(before, [*variables, *optimizer.variables], strict=True):
        np.testing.assert_array_equal(value, np.asarray(variable))
    assert int(commits.numpy()) == 1


def test_an_objects_own_attribute_is_restored_after_the_block():
    optimizer = keras.optimizers.SGD()
    optimizer.apply = own = lambda *a: "own"
    with replaced(optimizer, "apply", lambda *a: "ours"):
        assert optimizer.apply() == "ours"
    assert optimizer.apply is own


def test_missing_and_sparse_gradients_are_applied_behind_the_barrier(commits):
    table, unused = keras.Variable(np.ones((5, 2), "float32")), keras.Variable(np.ones((2,), "float32"))
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([table, unused])

    @tf.function
    def step():
        rows = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 3]), tf.constant([5, 2]))
        behind_barrier(optimizer, commits)([rows, None], [table, unused])

    with pytest.warns(UserWarning, match="Gradients do not exist"):
        step()
    np.testing.assert_array_equal(np.asarray(table)[:, 0], [1, 0, 1, 0, 1])
    np.testing.assert_array_equal(np.asarray(unused), [1, 1])
    assert int(commits.numpy()) == 1


def test_an_unbuilt_optimizer_is_built_by_its_first_update_behind_the_barrier(commits):
    variable, optimizer = keras.Variable(np.ones((2,), "float32")), keras.optimizers.Adam(0.1)

    @tf.function
    def step(gradient):
        behind_barrier(optimizer, commits)([gradient], [variable])

    step(tf.ones((2,)))
    step(tf.ones((2,)))
    assert optimizer.built
    assert int(optimizer.iterations.numpy()) == 2
