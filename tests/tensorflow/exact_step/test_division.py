"""Batches of several layouts in one model: with and without sample weights, with and without an optional input."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.batch import batches

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(16, 6)), RANDOM.normal(size=(16, 1))
WEIGHTS = np.arange(16) / 8

pytestmark = pytest.mark.usefixtures("float64")


def dense_model(*layers):
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), *layers, keras.layers.Dense(1)])
    made.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], jit_compile=False)
    return made


class OptionalInput(keras.Model):
    """Adds the output for a second input, if there is one."""

    def __init__(self, needs):
        super().__init__()
        self.needs, self.one, self.other = needs, keras.layers.Dense(1), keras.layers.Dense(1)
        self.one.build((None, 6))
        self.other.build((None, 6))
        self.built = True

    def call(self, x):
        first = self.needs(self.one(x["a"]))
        return first if x["b"] is None else first + self.other(x["b"])


class CouplesWeighted(keras.Model):
    """Its samples depend on each other if they have weights."""

    def __init__(self, needs):
        super().__init__()
        self.needs, self.dense = needs, keras.layers.Dense(1)

    def call(self, x):
        return self.needs(self.dense(x))

    def train_step(self, data):
        x, y, *weights = data
        with tf.GradientTape() as tape:
            prediction = self(x)
            if weights and weights[0] is not None:
                prediction -= tf.reduce_mean(prediction, 0, keepdims=True)
            loss = tf.reduce_mean(tf.square(prediction - y))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def optional_input(needs):
    keras.utils.set_random_seed(0)
    made = OptionalInput(needs)
    made.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    return made


def steps_of(model, calls):
    logs = [call(model) for call in calls]
    return logs, [v.numpy() for v in [*model.variables, *model.optimizer.variables]]


def assert_same(one, other):
    for expected, found in zip(one[0], other[0], strict=True):
        np.testing.assert_allclose(found, expected, 1e-10)
    for expected, found in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12)


def weighted(model):
    return model.train_on_batch(X, Y, sample_weight=WEIGHTS)


def unweighted(model):
    return model.train_on_batch(X, Y)


def fitted(model):
    return model.fit(X, Y, batch_size=16, shuffle=False, verbose=0).history["loss"]


def with_both(model):
    return model.train_on_batch({"a": X, "b": X}, Y)


def with_one(model):
    return model.train_on_batch({"a": X, "b": None}, Y)


@pytest.mark.parametrize(
    "calls",
    [
        (weighted, unweighted, weighted),
        pytest.param((unweighted, weighted, unweighted), marks=pytest.mark.slow),
        (fitted, unweighted, weighted, fitted),
        pytest.param((unweighted, fitted), marks=pytest.mark.slow),
    ],
)
def test_a_divided_step_is_exact_with_and_without_sample_weights(guard, watch, memory, needs, calls):
    expected = steps_of(dense_model(), calls)
    made = dense_model(needs())
    guard(made)
    memory.room = 6
    assert_same(expected, steps_of(made, calls))
    assert watch.recoveries
    assert set(watch.verdicts) == {"exact"}


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize("calls", [(with_both, with_one, with_both), (with_one, with_both, with_one)])
def test_optional_input_weights_train_only_with_that_input(guard, watch, memory, needs, calls):
    expected = steps_of(optional_input(tf.identity), calls)
    made = optional_input(needs())
    guard(made)
    memory.room = 6
    assert_same(expected, steps_of(made, calls))
    assert len(watch.verdicts) == 2


def test_each_batch_layout_gets_its_own_probe(guard, watch, memory, needs):
    made = CouplesWeighted(needs())
    made.compile(keras.optimizers.SGD(0.01), jit_compile=False)
    guard(made)
    memory.room = 6
    unweighted(made)
    with pytest.raises(RuntimeError, match="micro-batches are refused: the update depends on which samples"):
        weighted(made)
    assert [said.partition(":")[0] for said in watch.verdicts] == ["exact", "refused"]


def test_evaluate_and_test_on_batch_use_different_batch_layouts(guard_evaluation, watch, memory):
    class Taking(keras.layers.Layer):
        def call(self, x):
            taken = tf.numpy_function(memory.take, [tf.shape(x)[0]], tf.int32)
            with tf.control_dependencies([taken]):
                return tf.identity(x)

    made = dense_model(Taking())
    expected = made.evaluate(X, Y, batch_size=16, verbose=0), made.test_on_batch(X, Y)
    guard_evaluation(made)
    memory.room = 6
    found = made.evaluate(X, Y, batch_size=16, verbose=0), made.test_on_batch(X, Y)
    np.testing.assert_allclose(found, expected, 1e-10)
    assert watch.verdicts == ["exact", "exact"]


def test_batch_layout_ignores_the_number_of_samples():
    array, tensor = np.zeros((4, 3)), tf.zeros((9, 3), tf.float64)
    assert batches.layout_of((array, None)) == batches.layout_of((tensor, None))
    ragged, sparse = tf.RaggedTensor.from_tensor(tensor), tf.sparse.from_dense(tensor)
    others = [(array,), (array, array), [array, None], {"x": array}, (array[:, 0], None), (tf.zeros((4, 3)), None)]
    others += [(ragged, None), (sparse, None)]
    assert len({batches.layout_of(other) for other in [(array, None), *others]}) == len(others) + 1
