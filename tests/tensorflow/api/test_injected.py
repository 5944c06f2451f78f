"""oomph.testing: a test makes training run out of memory and checks that the result is the same."""

from __future__ import annotations

from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

import oomph
import oomph.testing

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def trained(injector=None, steps=3):
    keras.utils.set_random_seed(1)
    dense = keras.layers.Dense(1)
    dense.build((None, 4))
    optimizer = keras.optimizers.SGD(0.1)
    sizes = []

    @oomph.guard
    @tf.function
    def step(x, y):
        sizes.append(x.shape[0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(dense(x) - y))
        optimizer.apply(tape.gradient(loss, dense.trainable_variables), dense.trainable_variables)
        return loss

    losses = []
    with oomph.testing.injecting(injector or oomph.testing.Injector()):
        for _ in range(steps):
            losses.append(float(step(X, Y)))
    return dense.get_weights(), losses, sizes


def test_a_guarded_step_gives_the_same_result_after_injected_out_of_memory():
    weights, losses, _ = trained()
    injected, other, _ = trained(oomph.testing.OutOfMemory(samples=8, after=1))
    np.testing.assert_allclose(other, losses, rtol=1e-5)
    for ours, theirs in zip(injected, weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_micro_batches_stay_within_the_injected_limit():
    class Watched(oomph.testing.OutOfMemory):
        fitted: ClassVar[list[int]] = []
        asked: ClassVar[list[int]] = []

        def refuses_micro_batch(self, samples, batch):
            refused = super().refuses_micro_batch(samples, batch)
            (self.asked if refused else self.fitted).append(samples)
            assert samples <= batch
            return refused

    trained(Watched(samples=8))
    assert Watched.fitted
    assert max(Watched.fitted) <= 8


def test_injector_refusing_every_size_raises_tensorflows_own_error():
    class Nothing(oomph.testing.Injector):
        def refuses_full_batch(self, samples):
            return True

        def refuses_micro_batch(self, samples, batch):
            return True

    with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM when allocating"):
        trained(Nothing())


def test_an_injector_is_active_only_within_its_block():
    assert oomph.testing.active() is None
    outer, inner = oomph.testing.Injector(), oomph.testing.Injector()
    with oomph.testing.injecting(outer):
        with pytest.raises(ValueError, match="its own"), oomph.testing.injecting(inner):
            raise ValueError("its own")
        assert oomph.testing.active() is outer
    assert oomph.testing.active() is None


@pytest.mark.parametrize("arguments", [{"samples": 0}, {"samples": 4, "after": -1}])
def test_invalid_injection_limits_are_rejected(arguments):
    with pytest.raises(ValueError, match="at least"):
        oomph.testing.OutOfMemory(**arguments)
