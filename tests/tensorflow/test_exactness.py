"""What is promised for a model, and the reason when it is less than exact."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer

from oomph.tensorflow.exactness import (
    APPROXIMATE,
    EXACT,
    RESTART_ONLY,
    promise_after_tracing,
    promise_before_tracing,
)
from oomph.tensorflow.written import written_slots


class OwnStep(keras.Sequential):
    def train_step(self, data):
        return super().train_step(data)


class OwnLayer(keras.layers.Layer):
    def call(self, x):
        return x


class Functional(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


def own_loss(y, p):
    return keras.ops.mean((y - p) ** 2)


def compiled(model, **options):
    model.compile("adam", options.pop("loss", "mse"), **{"jit_compile": False, **options})
    return model


def before(model):
    return promise_before_tracing(model, trainer)


@pytest.mark.parametrize(
    "layers",
    [
        [keras.layers.Dense(2, kernel_regularizer="l2")],
        [keras.layers.LayerNormalization()],
        [keras.layers.Reshape((2, 2)), keras.layers.LSTM(3)],
        [keras.layers.Reshape((2, 2, 1)), keras.layers.Conv2D(1, 1), keras.layers.Flatten()],
    ],
)
def test_layers_that_see_each_sample_alone_are_exact(small_model, layers):
    assert before(small_model(*layers)).kind == EXACT


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda make: compiled(OwnStep([keras.Input((4,)), keras.layers.Dense(2)])), "custom train_step"),
        (lambda make: make(loss=keras.losses.MeanSquaredError(reduction="sum")), 'loss reduction "sum"'),
        (lambda make: make(loss=own_loss), "custom loss own_loss"),
        (lambda make: make(run_eagerly=True), "run_eagerly"),
        (lambda make: make(steps_per_execution=4), "steps_per_execution=4"),
        (lambda make: make(keras.layers.Masking()), "masked sequences"),
        (lambda make: make(keras.layers.Dense(2, activity_regularizer="l1", name="d")), "activity regulariser of d"),
    ],
)
def test_what_can_not_be_divided_is_only_restarted(small_model, make, reason):
    promise = before(make(small_model))
    assert (promise.kind, promise.reason) == (RESTART_ONLY, reason)
    assert str(promise) == f"restart only: {reason}"


def test_a_custom_layer_or_model_is_not_verified(small_model):
    assert before(small_model(OwnLayer())).reason == "custom layer OwnLayer is not verified"
    model = compiled(Functional())
    model(np.ones((1, 4), "float32"))
    assert before(model).kind == APPROXIMATE


@pytest.mark.parametrize(
    ("layers", "training", "kind"),
    [
        ([keras.layers.Dense(3)], True, EXACT),
        ([keras.layers.Dropout(0.2)], True, APPROXIMATE),
        ([keras.layers.GaussianNoise(0.2)], True, APPROXIMATE),
        ([keras.layers.BatchNormalization()], True, APPROXIMATE),
        ([keras.layers.BatchNormalization(trainable=False)], True, EXACT),
        ([keras.layers.Dropout(0.0)], True, EXACT),
    ],
)
def test_what_the_traced_step_writes_decides(small_model, layers, training, kind):
    model = small_model(*layers)
    step = tf.function(lambda x: model(x, training=training)).get_concrete_function(tf.constant(np.ones((2, 4), "f4")))
    assert promise_after_tracing(before(model), model, written_slots(step, besides=[])).kind == kind


def test_a_restart_only_model_stays_one(small_model):
    model = small_model(run_eagerly=True)
    assert promise_after_tracing(before(model), model, []).kind == RESTART_ONLY
