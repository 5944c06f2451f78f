"""Which fit a checkpoint belongs to."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from oomph.tensorflow.identity import call_site, fingerprint


def test_two_models_made_alike_have_one_fingerprint(small_model):
    first = fingerprint(small_model(optimizer=keras.optimizers.Adam(0.1)))
    keras.backend.clear_session()
    assert fingerprint(small_model(optimizer=keras.optimizers.Adam(0.1))) == first


def test_training_and_the_learning_rate_do_not_change_it(small_model):
    model = small_model()
    before = fingerprint(model)
    model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)
    model.optimizer.learning_rate = 0.5
    assert fingerprint(model) == before


@pytest.mark.parametrize(
    "other",
    [
        lambda make: make(keras.layers.Dense(4)),
        lambda make: make(keras.layers.Dense(3), keras.layers.Dense(3)),
        lambda make: make(keras.layers.Dense(3, use_bias=False)),
        lambda make: make(keras.layers.Dense(3, trainable=False)),
        lambda make: make(optimizer="sgd"),
        lambda make: make(optimizer=keras.optimizers.Adam(beta_1=0.5)),
        lambda make: make(keras.layers.Dense(3, dtype="float64")),
    ],
)
def test_another_model_or_optimizer_has_another_one(small_model, other):
    assert fingerprint(other(small_model)) != fingerprint(small_model())


def test_a_model_that_keras_builds_later_has_one_as_well():
    def make(units):
        model = keras.Sequential([keras.layers.Dense(units)])
        model.compile("adam", "mse")
        return model

    assert fingerprint(make(2)) == fingerprint(make(2))


def test_an_optimizer_without_a_configuration_is_known_by_its_class(small_model):
    class Odd(keras.optimizers.SGD):
        def get_config(self):
            raise NotImplementedError

    assert fingerprint(small_model(optimizer=Odd())) == fingerprint(small_model(optimizer=Odd()))
    assert fingerprint(small_model(optimizer=Odd())) != fingerprint(small_model(optimizer="sgd"))


def test_the_call_site_is_a_line_of_the_script():
    name, line = call_site().split(":")
    assert name == "test_identity.py"
    assert int(line) > 0
