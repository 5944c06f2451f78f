"""What is promised for a model, and the reason if it is less than exact."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import (
    APPROXIMATE,
    BATCH_NORMALIZATION,
    EXACT,
    RESTART_ONLY,
    TO_BE_PROBED,
    Promise,
    promise_after_tracing,
    promise_before_tracing,
    promise_for_predict,
)
from oomph.keras_bridge.graph import written_slots


class OwnStep(keras.Sequential):
    def train_step(self, data):
        return super().train_step(data)


class OwnLoss(keras.Sequential):
    def compute_loss(self, *args, **kwargs):
        return super().compute_loss(*args, **kwargs)


class OwnFunction(keras.Sequential):
    def make_train_function(self, force=False):
        return super().make_train_function(force)


class OwnLossClass(keras.losses.Loss):
    def call(self, y, p):
        return keras.ops.mean((y - p) ** 2, axis=-1)


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


def of_central_storage():
    with tf.distribute.experimental.CentralStorageStrategy(["/cpu:0"], "/cpu:0").scope():
        return compiled(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))


def with_operation():
    x = keras.Input((4,))
    return compiled(keras.Model(x, keras.layers.Dense(2)(x - keras.ops.mean(x, axis=0))))


def before(model):
    return promise_before_tracing(model)


@pytest.mark.parametrize(
    "layers",
    [
        [keras.layers.Dense(2, kernel_regularizer="l2")],
        [keras.layers.LayerNormalization()],
        [keras.layers.Reshape((2, 2)), keras.layers.LSTM(3)],
        [keras.layers.Reshape((2, 2, 1)), keras.layers.Conv2D(1, 1), keras.layers.Flatten()],
    ],
)
def test_layers_treating_each_sample_separately_are_exact(small_model, layers):
    assert before(small_model(*layers)).kind == EXACT


@pytest.mark.parametrize(
    "make",
    [
        lambda make: make(loss=keras.losses.MeanSquaredError(reduction="sum")),
        lambda make: make(loss=keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")),
        lambda make: make(run_eagerly=True),
        lambda make: make(steps_per_execution=4),
        lambda make: make(keras.layers.Masking()),
        lambda make: make(keras.layers.Dropout(0.5)),
    ],
)
def test_models_with_only_keras_parts_are_exact(small_model, make):
    assert before(make(small_model)) == Promise(EXACT)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda make: compiled(OwnStep([keras.Input((4,)), keras.layers.Dense(2)])), "custom train_step"),
        (lambda make: compiled(OwnLoss([keras.Input((4,)), keras.layers.Dense(2)])), "custom compute_loss"),
        (lambda make: make(loss=own_loss), "custom loss own_loss"),
        (lambda make: make(loss=OwnLossClass()), "custom loss OwnLossClass"),
        (lambda make: make(loss=None), "no loss in compile"),
        (lambda make: make(OwnLayer()), "custom layer OwnLayer"),
        (lambda make: compiled(Functional()), "custom model Functional"),
        (lambda make: make(loss="dice"), "loss dice"),
        (lambda make: make(loss=keras.losses.Tversky()), "loss Tversky"),
        (lambda make: make(loss=keras.losses.CosineSimilarity(axis=0)), "loss CosineSimilarity"),
        (lambda make: make(metrics=[own_loss]), "custom metric own_loss"),
        (lambda make: make(weighted_metrics=[keras.metrics.CosineSimilarity(axis=0)]), "metric CosineSimilarity"),
        (lambda make: make(keras.layers.Lambda(lambda x: x)), "layer Lambda"),
        (lambda make: make(keras.layers.Dense(2, lambda x: x)), "activation of layer Dense"),
        (lambda make: make(keras.layers.Dense(2, activity_regularizer="l1")), "activity regularizer of layer Dense"),
        (lambda make: make(keras.layers.Softmax(axis=0)), "layer Softmax"),
        (lambda make: make(keras.layers.Dropout(0.5, noise_shape=(5, 4))), "layer Dropout"),
        (lambda make: make(keras.Sequential([keras.layers.Dense(2), OwnLayer()])), "custom layer OwnLayer"),
        (lambda make: with_operation(), "operation Mean"),
    ],
)
def test_a_model_with_custom_parts_has_to_be_probed(small_model, make, reason):
    promise = before(make(small_model))
    assert promise == Promise(TO_BE_PROBED, reason)
    assert str(promise) == f"probed before a batch is divided: {reason}"
    assert not promise.refused


def test_the_promise_for_predict_depends_only_on_layers_and_predict_step(small_model):
    class OwnPredict(keras.Sequential):
        def predict_step(self, data):
            return super().predict_step(data)

    layers = [keras.Input((4,)), keras.layers.Dense(2)]
    assert promise_for_predict(small_model(loss=own_loss)) == Promise(EXACT)
    assert promise_for_predict(small_model(OwnLayer())) == Promise(TO_BE_PROBED, "custom layer OwnLayer")
    assert promise_for_predict(OwnPredict(layers)) == Promise(TO_BE_PROBED, "custom predict_step")


def test_a_custom_train_step_does_not_affect_the_promise_for_evaluate():
    model = compiled(OwnStep([keras.Input((4,)), keras.layers.Dense(2)]))
    assert promise_before_tracing(model, "test_step") == Promise(EXACT)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: compiled(OwnFunction([keras.Input((4,)), keras.layers.Dense(2)])), "custom make_train_function"),
        (lambda: of_central_storage(), "CentralStorageStrategy"),
    ],
)
def test_custom_train_functions_and_several_devices_are_restart_only(make, reason):
    promise = before(make())
    assert promise == Promise(RESTART_ONLY, reason)
    assert str(promise) == f"restart only: {reason}"


@pytest.mark.parametrize(
    ("layers", "training", "kind"),
    [
        ([keras.layers.Dense(3)], True, EXACT),
        ([keras.layers.Dropout(0.2)], True, EXACT),
        ([keras.layers.BatchNormalization()], True, APPROXIMATE),
        ([keras.layers.BatchNormalization()], False, EXACT),
        ([keras.layers.BatchNormalization(trainable=False)], True, EXACT),
        ([OwnLayer()], True, TO_BE_PROBED),
        ([OwnLayer(), keras.layers.BatchNormalization()], True, TO_BE_PROBED),
    ],
)
def test_the_promise_after_tracing_depends_on_the_variables_written(small_model, layers, training, kind):
    model = small_model(*layers)
    step = tf.function(lambda x: model(x, training=training)).get_concrete_function(tf.constant(np.ones((2, 4), "f4")))
    promise = promise_after_tracing(before(model), model, written_slots(step, besides=[]))
    assert promise.kind == kind
    assert (BATCH_NORMALIZATION in promise.reason) == (kind == APPROXIMATE or len(layers) == 2)


def test_a_restart_only_promise_is_unchanged_after_tracing(small_model):
    model = small_model(keras.layers.BatchNormalization())
    written = written_slots(
        tf.function(lambda x: model(x, training=True)).get_concrete_function(tf.constant(np.ones((2, 4), "f4"))), []
    )
    promise = Promise(RESTART_ONLY, "CentralStorageStrategy")
    assert promise_after_tracing(promise, model, written) == promise
