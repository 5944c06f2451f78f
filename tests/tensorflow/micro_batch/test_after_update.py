"""Weight averages, target networks and clipped weights are assigned once, from what the whole batch updated."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.after_update import BY_ITSELF

SIZES = (5, 5, 2)
X = np.random.default_rng(0).normal(size=(12, 4))
Y = X[:, :1]
pytestmark = pytest.mark.usefixtures("float64")

USES = "the step uses the weights after their update"


class Network(keras.Model):
    """A network, a copy of it, and what a step does with both after the update."""

    def __init__(self, jit_compile=False):
        super().__init__()
        self.network = self.of_two_layers()
        self.copy = self.of_two_layers()
        self.copy.set_weights(self.network.get_weights())
        self.compile(keras.optimizers.Adam(0.1), "mse", jit_compile=jit_compile)

    def of_two_layers(self):
        dense, norm = keras.layers.Dense(4), keras.layers.BatchNormalization(dtype="float64")
        return keras.Sequential([keras.Input((4,)), dense, norm, keras.layers.Dense(1)])

    def call(self, x):
        return self.network(x)

    def train_step(self, data):
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x))  # not training, so the batch does not affect the normalization
        before = self.before(loss)
        own = self.network.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, own), own, strict=True))
        logs = {"loss": loss}
        return {**logs, **(self.after(x, before) or {})}

    def before(self, loss):
        return None


class Averaged(Network):
    def after(self, x, before):
        for weight, average in zip(self.network.weights, self.copy.weights, strict=True):
            average.assign(0.9 * average + 0.1 * weight)


class Target(Averaged):
    """The same, for a network that is not trained."""

    def __init__(self, **options):
        super().__init__(**options)
        self.copy.trainable = False


class Added(Network):
    def after(self, x, before):
        for weight, average in zip(self.network.weights, self.copy.weights, strict=True):
            average.assign_add(0.1 * (weight - average))


class Clips(Network):
    def after(self, x, before):
        for weight in self.network.trainable_weights:
            weight.assign(keras.ops.clip(weight, -0.3, 0.3))


class Counts(Network):
    """Reports what it assigned; each part has to report it, and the state is moving."""

    def __init__(self, **options):
        super().__init__(**options)
        self.counter = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def after(self, x, before):
        self.counter.assign_add(1.0)
        return {"count": self.counter * 1.0}


class Twice(Network):
    """One assignment needs the result of the one before."""

    def after(self, x, before):
        first, second = self.network.trainable_weights[0], self.copy.trainable_weights[0]
        second.assign(first + second)
        first.assign(second * 0.5)


class OfTheBatch(Network):
    def before(self, loss):
        return loss

    def after(self, x, before):
        self.copy.weights[0].assign(self.copy.weights[0] + before)


class OfTheOld(Network):
    def before(self, loss):
        return self.network.weights[0] * 2.0

    def after(self, x, before):
        self.copy.weights[0].assign(before)


class Random(Network):
    def after(self, x, before):
        self.copy.weights[0].assign(tf.random.normal((4, 4), dtype=tf.float64))


class Uses(Averaged):
    """The average predicts within the step."""

    def after(self, x, before):
        super().after(x, before)
        return {"of_average": tf.reduce_mean(self.copy(x))}


class Tells(Network):
    """The assigned value is also reported."""

    def after(self, x, before):
        value = self.network.weights[0] * 0.5
        self.copy.weights[0].assign(value)
        return {"size": tf.reduce_sum(value)}


@pytest.mark.parametrize(
    ("cls", "jit_compile"),
    [
        *((cls, False) for cls in (Averaged, Target, Added, Clips)),
        (Averaged, True),
        *(pytest.param(cls, True, marks=pytest.mark.slow) for cls in (Target, Added, Clips)),
    ],
)
def test_three_divided_steps_match_three_undivided_ones(guarded, cls, jit_compile):
    def made():
        keras.utils.set_random_seed(0)
        return cls(jit_compile=jit_compile)

    plain, ours = made(), guarded(made(), (X, Y))
    begun = [weight.numpy().copy() for weight in ours.model.copy.weights + ours.model.network.weights]
    for _ in range(3):
        plain.train_on_batch(X, Y)
        ours.take(SIZES)
    assert ours.divided.micro_step.reason == ""
    theirs = plain.copy.weights + plain.network.weights
    pairs = list(zip(ours.model.copy.weights + ours.model.network.weights, theirs, strict=True))
    for one, other in pairs:
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-12, 1e-14)
    assert sum(np.any(value != weight.numpy()) for value, (weight, _) in zip(begun, pairs, strict=True)) >= 4


def test_reported_counter_advances_once_per_divided_step(guarded):
    keras.utils.set_random_seed(0)
    ours = guarded(Counts(), (X, Y))
    for _ in range(3):
        logs = ours.take(SIZES)
    assert ours.divided.micro_step.reason == ""
    assert (float(ours.model.counter.numpy()), logs["count"]) == (3.0, 3.0)


def test_parts_do_not_assign_variables_before_the_commit(guarded):
    keras.utils.set_random_seed(0)
    ours = guarded(Averaged(), (X, Y))
    before = [weight.numpy().copy() for weight in ours.model.copy.weights]
    ours.take(SIZES, commit=False)
    for value, weight in zip(before, ours.model.copy.weights, strict=True):
        np.testing.assert_array_equal(value, weight.numpy())


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Twice, BY_ITSELF),
        (OfTheBatch, BY_ITSELF),
        (OfTheOld, BY_ITSELF),
        (Random, BY_ITSELF),
        (Uses, USES),
        (Tells, USES),
    ],
)
def test_assignments_depending_on_more_than_updated_variables_are_rejected(guarded, cls, reason):
    ours = guarded(cls(), (X, Y))
    ours.divided.micro_step.trace(ours.batch)
    assert ours.divided.micro_step.reason == reason
    assert ours.find().obstacle == reason


def test_an_eager_step_with_assignments_after_the_update_is_rejected(guarded):
    model = Averaged()
    model.run_eagerly = True
    ours = guarded(model, (X, Y))
    ours.divided.micro_step.trace(ours.batch)
    assert ours.divided.micro_step.reason == BY_ITSELF
