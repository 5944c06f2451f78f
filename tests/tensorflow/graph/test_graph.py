"""The variables that a traced function writes, and copying the function into other graphs, op by op."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.graph import Slot, SmallState, inlined, leave_out, tensorflow_variable, written_slots


def concrete(function, *specs):
    return tf.function(function).get_concrete_function(*specs)


def test_inlined_copy_computes_the_same_result_without_a_call():
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


def test_numbers_that_a_function_reads_when_it_is_called_are_read_at_each_call_of_the_copy():
    """TensorFlow numbers the collective operations of several workers so."""
    read = []

    def number():
        read.append(1)
        return tf.constant(len(read))

    def function(x):
        return x + tf.compat.v1.get_default_graph().capture_call_time_value(number, tf.TensorSpec([], tf.int32))

    outer = tf.function(inlined(concrete(function, tf.TensorSpec([], tf.int32))))
    assert [int(outer(tf.constant(10))) for _ in range(3)] == [11, 12, 13]


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


def test_measures_and_the_order_of_collectives_are_no_state(three):
    """Their variables exist only under several workers: a single one could not restore a checkpoint with them."""
    leave_out(three[0])

    def function():
        three[0].assign_add(1)
        three[1].assign_add(
            tf.raw_ops.CollectiveReduceV2(
                input=three[1].read_value(), group_size=1, group_key=1, instance_key=1, merge_op="Add", final_op="Id",
                ordering_token=[three[2].handle],
            )
        )  # fmt: skip

    assert written(function) == handles(three[1])


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


def test_snapshot_keeps_its_values_despite_later_writes():
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
