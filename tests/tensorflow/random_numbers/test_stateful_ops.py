"""A step's random numbers, drawn from variables: bit-identical to TensorFlow's kernels, and resumable."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.stateful_random_ops import KeptRandomOps

DRAWS = {
    "normal": lambda: tf.random.normal((3, 5)),
    "normal of float64": lambda: tf.random.normal((7,), dtype="float64"),
    "normal of float16": lambda: tf.random.normal((7,), dtype="float16"),
    "truncated normal": lambda: tf.random.truncated_normal((11,)),
    "uniform": lambda: tf.random.uniform((2, 3, 4)),
    "uniform of integers": lambda: tf.random.uniform((13,), 0, 1000, "int32"),
    "uniform of long integers": lambda: tf.random.uniform((13,), -5, 1 << 40, "int64"),
    "shuffle": lambda: tf.random.shuffle(tf.range(17)),
    "shuffle of rows": lambda: tf.random.shuffle(tf.reshape(tf.range(60), (12, 5))),
    "shuffle of one": lambda: tf.random.shuffle(tf.range(1)),
    "shuffle of nothing": lambda: tf.random.shuffle(tf.range(0)),
    "nothing": lambda: tf.random.normal((0, 4)),
    "a scalar": lambda: tf.random.uniform(()),
    "many": lambda: tf.random.normal((300_000,)),
    "with a seed of its own": lambda: tf.random.normal((5,), seed=7),
    "dropout": lambda: tf.nn.dropout(tf.ones(50), 0.4),
    "several": lambda: tf.concat([tf.random.normal((3,)), tf.random.uniform((3,)), tf.random.normal((3,))], 0),
}


def stepping(draw, kept=None, seed=5):
    """Return a traced function that draws random numbers, with its draws kept or unchanged."""
    tf.random.set_seed(seed)

    @tf.function
    def step():
        if kept is None:
            return draw()
        with kept.replaced():
            return draw()

    if kept is not None:
        kept.take(step.get_concrete_function())
    return step


@pytest.mark.parametrize("name", DRAWS)
def test_kept_random_operations_draw_the_same_bits_as_the_kernels(name):
    plain, ours = stepping(DRAWS[name]), stepping(DRAWS[name], KeptRandomOps())
    for _ in range(4):
        np.testing.assert_array_equal(ours(), plain())


@pytest.mark.parametrize("name", ["several", "shuffle", "truncated normal", "uniform of integers"])
def test_kept_random_operations_resume_at_the_saved_counts(name):
    kept = KeptRandomOps()
    first = stepping(DRAWS[name], kept)
    for _ in range(3):
        first()
    counts = kept.values()
    again = KeptRandomOps()
    second = stepping(DRAWS[name], again)
    again.restore([np.array(count) for count in counts])
    for _ in range(2):
        np.testing.assert_array_equal(second(), first())


def test_restored_counts_also_apply_to_functions_traced_later():
    kept, again = KeptRandomOps(), KeptRandomOps()
    functions = [stepping(DRAWS[name], kept) for name in ("normal", "uniform")]
    for function in functions:
        function()
    first = stepping(DRAWS["normal"], again)
    again.restore(kept.values())
    second = stepping(DRAWS["uniform"], again)
    np.testing.assert_array_equal(first(), functions[0]())
    np.testing.assert_array_equal(second(), functions[1]())


@pytest.mark.parametrize("name", ["normal", "uniform", "shuffle", "dropout", "several"])
def test_unseeded_draws_differ_between_processes_but_can_be_restored(name):
    kept, again = KeptRandomOps(), KeptRandomOps()
    try:
        one, other = (stepping(DRAWS[name], draws, seed=None) for draws in (kept, again))
        assert (one().numpy() != other().numpy()).any()
        again.restore(kept.values())
        np.testing.assert_array_equal(one(), other())
    finally:
        tf.random.set_seed(0)


def test_draws_in_branches_and_loops_resume_at_the_saved_counts():
    def draw():
        first = tf.cond(tf.constant(True), lambda: tf.random.normal((3,)), lambda: tf.zeros(3))
        return tf.while_loop(lambda n, _: n < 3, lambda n, x: (n + 1, x + tf.random.normal((3,))), (0, first))[1]

    kept = KeptRandomOps()
    first = stepping(draw, kept)
    assert len(kept.variables) == 2
    first()
    again = KeptRandomOps()
    second = stepping(draw, again)
    again.restore(kept.values())
    np.testing.assert_array_equal(second(), first())


def test_draws_in_a_called_function_are_unchanged():
    @tf.function
    def inner():
        return tf.random.normal((3,))

    kept = KeptRandomOps()
    step = stepping(lambda: inner() + inner(), kept)
    step()
    assert kept.variables == []


def test_random_operations_are_replaced_only_within_the_block():
    kept = KeptRandomOps()
    with kept.replaced():
        pass
    stepping(DRAWS["normal"])()
    assert kept.values() == []
    with pytest.raises(ZeroDivisionError), kept.replaced():
        raise ZeroDivisionError
    stepping(DRAWS["normal"])()
    assert kept._made == []
