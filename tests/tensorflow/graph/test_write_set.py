"""The graph says which variables a function writes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.graph import Slot, SmallState, tensorflow_variable, written_slots


@pytest.fixture
def three():
    return [tf.Variable(float(n)) for n in range(3)]


def written(function, *args, besides=()):
    concrete = tf.function(function).get_concrete_function(*args)
    return {id(slot.handle) for slot in written_slots(concrete, besides=besides)}


def handles(*variables):
    return {id(variable.handle) for variable in variables}


def test_a_variable_that_is_only_read_is_not_in_the_write_set(three):
    def function():
        three[0].assign_add(three[1] * three[2])

    assert written(function) == handles(three[0])


def test_excluded_variables_are_left_out_of_the_write_set(three):
    def function():
        three[0].assign(1)
        three[1].assign(1)

    assert written(function, besides=[three[0]]) == handles(three[1])


@pytest.mark.parametrize("jit", [False, True])
def test_the_write_set_includes_writes_in_inner_functions_branches_and_loops(three, jit):
    inner = tf.function(lambda: three[0].assign_add(1), jit_compile=jit)

    def function(flag):
        inner()
        tf.cond(flag, lambda: three[1].assign_add(1), lambda: three[1].read_value())
        tf.while_loop(lambda i: i < 2, lambda i: (i + tf.cast(three[2].assign_add(1), tf.int32) * 0 + 1,), [0])

    assert written(function, tf.constant(True)) == handles(*three)


def test_tables_and_iterators_are_left_out_of_the_write_set(three):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    iterator = iter(tf.data.Dataset.range(3))

    def function():
        table.insert(next(iterator), 1.0)
        three[0].assign(0)

    assert written(function) == handles(three[0])


def test_a_keras_variable_resolves_to_its_tensorflow_variable():
    import keras

    variable = keras.Variable(np.ones(3, "float32"))
    assert isinstance(tensorflow_variable(variable), tf.Variable)
    slot = Slot.of(variable)
    assert (slot.dtype, slot.read().numpy().tolist()) == (tf.float32, [1, 1, 1])
    slot.assign(tf.constant([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(np.asarray(variable), [1, 2, 3])


def test_a_snapshot_keeps_the_values_through_later_writes():
    variables = [tf.Variable([1.0, 2.0]), tf.Variable(3, dtype=tf.int64)]
    state = SmallState([Slot.of(v) for v in variables])
    before = state.snapshot()
    for _ in range(3):
        variables[0].assign_add([1.0, 1.0])
        variables[1].assign_add(1)
    state.restore(before)
    assert (variables[0].numpy().tolist(), int(variables[1].numpy())) == ([1, 2], 3)


def test_an_empty_state_can_be_saved_and_restored():
    state = SmallState([])
    state.restore(state.snapshot())
