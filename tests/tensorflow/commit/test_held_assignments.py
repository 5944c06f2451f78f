"""A step's assignments are held back until everything they need is computed, and nothing else changes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.commit import held_bytes, hold_back, one_by_one


@pytest.fixture
def commits():
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def failing(value, good):
    with tf.control_dependencies([tf.debugging.Assert(good, ["no memory"])]):
        return tf.identity(value)


def test_held_back_assignments_yield_equal_values_and_one_commit_per_step(commits):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable(3.0)

    @tf.function
    def step():
        def apply():
            a.assign_add([1.0, 1.0])
            b.assign(b * 2)
            return b.read_value()

        return hold_back(apply, commits)

    assert [float(step()) for _ in range(2)] == [6.0, 12.0]
    np.testing.assert_array_equal(a, [3.0, 4.0])
    assert int(commits) == 2


@pytest.mark.parametrize("place", range(3))
def test_nothing_is_assigned_if_any_value_cannot_be_computed(commits, place):
    variables = [tf.Variable(float(n)) for n in range(3)]

    @tf.function
    def step(good):
        def apply():
            for n, variable in enumerate(variables):
                variable.assign_add(failing(tf.constant(1.0), good) if n == place else tf.constant(1.0))

        hold_back(apply, commits)

    step(tf.constant(True))
    for _ in range(10):
        with pytest.raises(tf.errors.InvalidArgumentError):
            step(tf.constant(False))
    assert [float(v) for v in variables] == [1.0, 2.0, 3.0]
    assert int(commits) == 1


def test_the_commit_is_counted_before_any_variable_is_assigned(commits):
    """A step that fails between two assignments must show that something may have been assigned."""
    variables = [tf.Variable(float(n)) for n in range(3)]

    @tf.function
    def step():
        def apply():
            for variable in variables:
                variable.assign(variable * 2)

        hold_back(apply, commits)

    operations = step.get_concrete_function().graph.get_operations()
    (count,) = [operation for operation in operations if operation.type == "AssignAddVariableOp"]
    assignments = [operation for operation in operations if operation.type == "AssignVariableOp"]
    assert len(assignments) == 3
    assert all(count in operation.control_inputs for operation in assignments)


def test_assignments_are_not_held_back_when_memory_is_short(commits):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    asked = []

    def room(most):
        asked.append(most)
        return most

    @tf.function
    def step(good, most):
        def apply():
            a.assign_add([1.0, 1.0])
            b.assign(failing(b * 2, good))

        hold_back(apply, commits, lambda: room(most))

    held = step.get_concrete_function(tf.constant(True), 12)  # two floats and one more
    free = step.get_concrete_function(tf.constant(True), 11)
    assert asked == [12, 11]
    assert (held_bytes(held.graph), held_bytes(free.graph)) == (20, 0)  # including the count itself
    free(tf.constant(True))
    assert (float(a[0]), float(b), int(commits)) == (2.0, 6.0, 1)
    with pytest.raises(tf.errors.InvalidArgumentError):
        free(tf.constant(False))
    assert (float(b), int(commits)) == (6.0, 2), "whatever was assigned, it shows that something may have been"


def test_values_computed_from_an_assigned_variable_use_its_new_value(commits):
    a, b = tf.Variable(1.0), tf.Variable(0.0)

    @tf.function
    def step(good):
        def apply():
            a.assign_add(1.0)
            b.assign(failing(a.read_value() * 10, good))

        hold_back(apply, commits)

    step(tf.constant(True))
    assert (float(a), float(b)) == (2.0, 20.0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(False))
    assert (float(a), float(b), int(commits)) == (3.0, 20.0, 2), "and the failure is one within the commit"


def test_a_step_without_assignments_is_not_counted_as_a_commit(commits):
    @tf.function
    def step():
        return hold_back(lambda: tf.constant(5.0) * 2, commits)

    assert float(step()) == 10.0
    assert int(commits) == 0


def test_sparse_updates_and_branches_are_held_back(commits):
    table, once = tf.Variable(tf.ones((4, 2))), tf.Variable(0.0)

    @tf.function
    def step(good):
        def apply():
            table.scatter_add(tf.IndexedSlices(failing(tf.ones((1, 2)), good), tf.constant([2])))
            tf.cond(tf.constant(True), lambda: once.assign_add(1.0), lambda: once.assign_add(0.0))

        hold_back(apply, commits)

    step(tf.constant(True))
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(False))
    assert (float(table[2, 0]), float(once), int(commits)) == (2.0, 1.0, 1)


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.1, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.1, weight_decay=0.1, use_ema=True, ema_overwrite_frequency=2),
    "clipped": lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.3),
    "accumulating": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "scheduled": lambda: keras.optimizers.RMSprop(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "factored": lambda: keras.optimizers.Adafactor(0.1),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_held_back_updates_of_every_optimizer_are_bit_identical_to_keras(commits, name):
    def trained(held):
        keras.utils.set_random_seed(1)
        variables = [keras.Variable(np.random.normal(size=(6, 5)).astype("float32")) for _ in range(3)]
        optimizer = OPTIMIZERS[name]()
        optimizer.build(variables)

        @tf.function
        def step(x):
            grads = [tf.sin(tf.convert_to_tensor(v)) * x * (n + 1) for n, v in enumerate(variables)]
            if held:
                return hold_back(lambda: optimizer.apply(grads, variables), commits)
            return optimizer.apply(grads, variables)

        for n in range(5):
            step(tf.constant(0.1 * (n + 1)))
        return [np.asarray(v) for v in [*variables, *optimizer.variables]]

    for ours, plain in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(ours, plain)
    assert int(commits) == 5


@pytest.mark.parametrize("options", [{}, {"global_clipnorm": 1.0, "weight_decay": 0.1}, {"use_ema": True}])
def test_assigning_one_by_one_gives_equal_values_and_holds_fewer_at_once(options):
    def trained(how):
        variables = [tf.Variable(tf.fill([4], float(n))) for n in range(1, 4)]
        optimizer = keras.optimizers.Adam(0.1, **options)
        optimizer.build(variables)

        @tf.function
        def step(gradients):
            how(lambda: optimizer.apply(gradients, variables))

        gradients = [tf.fill([4], float(n)) for n in range(1, 4)]
        for _ in range(3):
            step(gradients)
        return step.get_concrete_function(gradients).graph, [v.numpy() for v in [*variables, *optimizer.variables]]

    (side_by_side, expected), (one_after_the_other, values) = trained(lambda apply: apply()), trained(one_by_one)
    for one, other in zip(expected, values, strict=True):
        np.testing.assert_array_equal(one, other)
    assert computed_at_once(one_after_the_other) < computed_at_once(side_by_side) / 2


def computed_at_once(graph):
    """Return how many sums, products and squares of whole weights wait for no assignment."""
    late, count = set(), 0
    for operation in graph.get_operations():
        before = [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
        if operation.type.startswith("Assign") or any(id(each) in late for each in before):
            late.add(id(operation))
        elif operation.type in ("AddV2", "Sub", "Mul", "Square") and operation.outputs[0].shape == (4,):
            count += 1
    return count
