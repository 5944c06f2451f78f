"""Gradients computed twice: this changes nothing, and any difference beyond rounding is detected."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.step.recheck import Recheck

X, Y = np.random.default_rng(0).normal(size=(48, 4)).astype("float32"), np.ones((48, 2), "float32")


class Device:
    """Multiplies a gradient by one, or, in the computations listed in `wrong` (counted from 1), by something else."""

    def __init__(self, *wrong, by=1.01):
        self.wrong, self.by, self.count = wrong, by, 0

    def factor(self):
        self.count += 1
        return np.float32(self.by if self.count in self.wrong else 1.0)

    def layer(self):
        @tf.custom_gradient
        def through(x):
            return tf.identity(x), lambda upstream: upstream * tf.numpy_function(self.factor, [], tf.float32)

        class Through(keras.layers.Layer):
            def call(self, x):
                return through(x)

        return Through()


@pytest.fixture
def rechecked(small_model, guard):
    def run(*layers, every=2, steps=6, **compiled):
        model = small_model(*layers, **compiled)
        step, found, clean = guard(model), [], []
        step.recheck = Recheck(model, model.train_step, every, found.append, lambda: clean.append(True))
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(48 // steps)
        iterator = iter(data)
        for _ in range(steps):
            step(iterator)
        return model, step.recheck, found, clean

    return run


@pytest.mark.parametrize(
    "compiled",
    [
        {},
        pytest.param({"run_eagerly": True}, marks=pytest.mark.slow),
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_rechecking_does_not_affect_training(small_model, rechecked, compiled):
    def layers():
        return [keras.layers.Dense(6), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=3)]

    keras.utils.set_random_seed(0)
    plain = small_model(*layers(), metrics=["mae"], **compiled)
    plain.fit(X, Y, batch_size=8, shuffle=False, verbose=0)
    keras.utils.set_random_seed(0)
    ours, recheck, found, clean = rechecked(*layers(), metrics=["mae"], **compiled)
    assert (recheck.done, found, len(clean), recheck.impossible) == (3, [], 3, "")
    for theirs, mine in zip(plain.variables, ours.variables, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy(), err_msg=mine.path)


@pytest.mark.parametrize(("wrong", "third"), [((2,), "the second"), ((3,), "the first"), ((2, 3), "neither")])
def test_wrong_gradient_is_detected_and_its_device_identified(rechecked, wrong, third):
    """Step 1 is computation 1; two more are compared before step 2, followed by a third if they differ."""
    device = Device(*wrong) if third != "neither" else Device(2, by=1.5)
    if third == "neither":
        device.factor = iter(np.float32([1.0, 1.5, 1.0, 0.7, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])).__next__
    model, recheck, (found, *more), clean = rechecked(keras.layers.Dense(3), device.layer())
    assert more == []
    assert (recheck.done, len(clean)) == (3, 2)
    assert found.device == "CPU:0"
    assert found.variable == model.layers[0].kernel.path or found.variable == model.layers[0].bias.path
    assert found.third == third
    assert found.difference > 0.005


def test_rounding_is_not_reported_as_a_fault(rechecked):
    _, _, found, clean = rechecked(keras.layers.Dense(3), Device(2, 5, by=1 + 2e-6).layer())
    assert (found, len(clean)) == ([], 3)


def test_nan_counts_as_a_difference_only_if_recomputation_yields_no_nan(rechecked):
    _, _, found, _ = rechecked(keras.layers.Dense(3), Device(3, by=np.nan).layer())
    assert [one.difference for one in found] == [np.inf]
    _, _, found, clean = rechecked(keras.layers.Dense(3), Device(2, 3, by=np.nan).layer())
    assert (found, len(clean)) == ([], 3)


@pytest.mark.parametrize(("every", "steps", "due"), [(1, 1, 8), (3, 1, 2), (3, 4, 8), (100, 4, 0)])
def test_recheck_interval_does_not_depend_on_steps_per_execution(small_model, every, steps, due):
    recheck = Recheck(small_model(), None, every, None, None)
    assert sum(recheck.is_due(steps) for _ in range(8)) == due


def test_sparse_gradients_are_compared():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Embedding(9, 2), keras.layers.Flatten()])
    model.add(keras.layers.Dense(1))
    model.compile("sgd", "mse", jit_compile=False)
    found, clean = [], []
    recheck = Recheck(model, model.train_step, 1, found.append, lambda: clean.append(True))
    batch = (tf.constant([[1, 2, 3], [2, 2, 8]]), tf.ones((2, 1)))
    from oomph.exact_step.step.full_batch_step import FullBatchStep

    recheck.check(batch, 2, FullBatchStep(model, model.train_step).state_of(batch))
    assert (found, len(clean)) == ([], 1)


def test_a_step_with_unrestorable_random_draws_is_not_rechecked(rechecked):
    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + tf.random.normal(tf.shape(x))

    _, recheck, found, clean = rechecked(Noise())
    assert (recheck.done, found, clean) == (0, [], [])
    assert "cannot be restored" in recheck.impossible


def test_recheck_is_skipped_without_enough_memory_and_training_continues(rechecked, needs, memory):
    memory.fail_at = 2
    _, recheck, found, clean = rechecked(keras.layers.Dense(3), needs())
    assert (found, recheck.done, len(clean)) == ([], 2, 2)
