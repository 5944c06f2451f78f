"""Unseeded eager draws are the same in every attempt, and continue from where they were."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_random_ops

from oomph.keras_bridge.stateful_random_ops import DRAWS as REPLACED
from oomph.keras_bridge.stateful_random_ops import EagerRandomOps

DRAWS = {
    "normal": lambda: tf.random.normal((3, 5)),
    "normal of float64": lambda: tf.random.normal((2000,), dtype="float64"),
    "truncated normal": lambda: tf.random.truncated_normal((11,)),
    "uniform": lambda: tf.random.uniform((2, 3, 4), -1, 1),
    "uniform of integers": lambda: tf.random.uniform((13,), 0, 1000, "int32"),
    "shuffle": lambda: tf.random.shuffle(tf.range(17)),
    "shuffle of one": lambda: tf.random.shuffle(tf.range(1)),
    "nothing": lambda: tf.random.normal((0, 4)),
    "dropout": lambda: tf.nn.dropout(tf.ones(50), 0.4),
}
ONE, OTHER = "0" * 31 + "1", "f" * 32


@pytest.fixture
def attempt(monkeypatch):
    """Return the draws in one attempt of a run."""
    kernels = {name: getattr(gen_random_ops, name) for name in REPLACED}
    tf.random.set_seed(None)

    def begin(entropy):
        for name, kernel in kernels.items():
            monkeypatch.setattr(gen_random_ops, name, kernel)
        draws = EagerRandomOps(entropy)
        draws.install()
        return draws

    yield begin
    tf.random.set_seed(0)


@pytest.mark.parametrize("name", DRAWS)
def test_eager_draws_match_across_attempts_but_not_across_runs(attempt, name):
    drawn = []
    for entropy in (ONE, ONE, OTHER):
        attempt(entropy)
        drawn.append([DRAWS[name]().numpy() for _ in range(3)])
    first, second, other = drawn
    np.testing.assert_equal(first, second)
    if first[0].size > 1:
        assert not np.array_equal(first[0], first[1]), "it goes on"
        assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", DRAWS)
def test_eager_draws_resume_at_the_saved_count(attempt, name):
    draws = attempt(ONE)
    DRAWS[name]()
    count, expected = draws.count, [DRAWS[name]().numpy() for _ in range(2)]
    attempt(ONE).count = count
    np.testing.assert_equal([DRAWS[name]().numpy() for _ in range(2)], expected)


@pytest.mark.parametrize("name", ["normal", "shuffle", "uniform of integers"])
def test_seeded_draws_and_draws_within_functions_are_unchanged(attempt, name):
    def drawn():
        tf.random.set_seed(3)
        return [DRAWS[name]().numpy(), tf.function(DRAWS[name])().numpy()]

    plain = drawn()
    draws = attempt(ONE)
    np.testing.assert_equal(drawn(), plain)
    tf.random.set_seed(None)
    tf.function(DRAWS[name])()
    assert draws.count == 0


def test_drawn_numbers_follow_the_requested_distribution(attempt):
    attempt(ONE)
    normal, uniform = tf.random.normal((100_000,), 2, 3).numpy(), tf.random.uniform((100_000,), 1, 5).numpy()
    assert abs(normal.mean() - 2) < 0.05
    assert abs(normal.std() - 3) < 0.05
    assert abs(uniform.mean() - 3) < 0.05
    assert 1 <= uniform.min() < uniform.max() < 5
    assert sorted(tf.random.shuffle(tf.range(50)).numpy()) == list(range(50))
    assert set(tf.random.uniform((1000,), 0, 5, "int32").numpy()) == set(range(5))


@pytest.mark.parametrize("compiled", [False, True])
def test_unusual_arguments_to_random_kernels_behave_as_in_tensorflow(attempt, compiled):
    attempt(ONE)
    wrap = tf.function if compiled else (lambda call: call)
    assert wrap(lambda: tf.random.shuffle(7))() == 7, "a single number has no rows"
    assert wrap(lambda: gen_random_ops.random_uniform(shape=[3], dtype=tf.float32))().shape == (3,)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        wrap(lambda: tf.random.uniform((3,), 5, 5, "int32"))()
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError, TypeError)):
        wrap(lambda: gen_random_ops.random_uniform([3], tf.string))()


def test_a_forked_process_does_not_advance_the_count(attempt, monkeypatch):
    draws = attempt(ONE)
    monkeypatch.setattr("os.getpid", lambda: -1)
    DRAWS["normal"]()
    assert draws.count == 0
