"""Which fit a checkpoint belongs to."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from oomph.resume.training.identity import FitIdentity, fingerprint


def test_identically_built_models_have_the_same_fingerprint(small_model):
    first = fingerprint(small_model(optimizer=keras.optimizers.Adam(0.1)))
    keras.backend.clear_session()
    assert fingerprint(small_model(optimizer=keras.optimizers.Adam(0.1))) == first


def test_training_and_learning_rate_do_not_change_the_fingerprint(small_model):
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
def test_another_model_or_optimizer_has_another_fingerprint(small_model, other):
    assert fingerprint(other(small_model)) != fingerprint(small_model())


def test_an_unbuilt_model_has_a_fingerprint():
    def make(units):
        model = keras.Sequential([keras.layers.Dense(units)])
        model.compile("adam", "mse")
        return model

    assert fingerprint(make(2)) == fingerprint(make(2))


def test_an_optimizer_without_a_configuration_is_identified_by_its_class(small_model):
    class Odd(keras.optimizers.SGD):
        def get_config(self):
            raise NotImplementedError

    assert fingerprint(small_model(optimizer=Odd())) == fingerprint(small_model(optimizer=Odd()))
    assert fingerprint(small_model(optimizer=Odd())) != fingerprint(small_model(optimizer="sgd"))


def identity(**facts):
    return FitIdentity(
        **{"ordinal": 0, "site": "train.py:5", "fingerprint": "f", "place": "p", "occurrence": 0, **facts}
    )


@pytest.mark.parametrize(
    ("facts", "same"),
    [
        ({"ordinal": 3}, True),
        ({"site": "train.py:9"}, True),
        ({"fingerprint": "g"}, True),
        ({"place": "q"}, False),
        ({"occurrence": 1}, False),
    ],
)
def test_a_fit_is_identified_by_its_place_and_turn(facts, same):
    assert (identity(**facts).key == identity().key) is same


def test_each_fit_number_has_its_own_witness_key():
    """What has been trained anew under another number is not what the witnesses of the first one are of."""
    found = {identity().witness_key, identity(ordinal=1).witness_key, identity(occurrence=1).witness_key}
    assert len(found) == 3
    assert all(0 <= key < 1 << 64 for key in found)
    assert identity(site="train.py:9", fingerprint="g").witness_key == identity().witness_key
