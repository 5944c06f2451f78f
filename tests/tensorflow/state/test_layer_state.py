"""Layer state other than Keras' variables."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge import models
from oomph.keras_bridge.graph import Slot
from oomph.resume.state import training_state


class Keeping(keras.layers.Layer):
    def build(self, shape):
        self.weight = self.add_weight(shape=(2,))
        self.alone = tf.Variable(1.0)
        self.several = [tf.Variable(2.0), {"not": "looked into"}]
        self.by_name = {"one": tf.Variable(3.0)}
        self.random = tf.random.Generator.from_seed(1)
        self.table = np.zeros(2)

    def call(self, x):
        return x

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["table"] = self.table

    def load_own_variables(self, store):
        self.table = np.array(store.pop("table"))
        super().load_own_variables(store)


@pytest.fixture
def model():
    made = keras.Sequential([keras.Input((2,)), Keeping(), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def test_variables_not_listed_by_keras_are_part_of_the_state(model):
    layer = model.layers[0]
    hidden = {id(Slot.of(v).handle) for v in [layer.alone, layer.several[0], layer.by_name["one"], layer.random.state]}
    named = {id(slot.handle) for _, slot in training_state.named_slots(model)}
    assert hidden <= named
    assert {id(Slot.of(v).handle) for v in model.variables} <= named


def test_state_from_save_own_variables_is_restored(model):
    layer, told = model.layers[0], []
    layer.table += 5
    arrays = models.own_arrays(model, told.append)
    assert {key: value.tolist() for key, value in arrays.items()} == {"2/table": [5.0, 5.0]}
    layer.table += 1
    weight = layer.weight.numpy()
    assert arrays["2/table"].tolist() == [5.0, 5.0], "a copy"
    models.give_back(model, arrays)
    assert layer.table.tolist() == [5.0, 5.0]
    np.testing.assert_array_equal(layer.weight.numpy(), weight)
    assert told == []


def test_a_failing_save_own_variables_is_reported_without_stopping_the_save(model, monkeypatch):
    def broken(self, store):
        raise KeyError("table")

    monkeypatch.setattr(Keeping, "save_own_variables", broken)
    told = []
    assert models.own_arrays(model, told.append) == {}
    assert told == [f"layer {model.layers[0].name}: save_own_variables failed (KeyError: 'table')"]


def test_keras_layers_have_no_additional_state(small_model):
    model = small_model(keras.layers.BatchNormalization(), keras.layers.Dropout(0.1))
    assert models.own_arrays(model, pytest.fail) == {}
    assert list(models.hidden_variables(model)) == []


class Counting(keras.layers.Layer):
    calls, last = 0, None

    def call(self, x):
        self.calls, self.last = self.calls + 1, "called"
        return x


def test_trial_call_does_not_change_counters_in_a_layer():
    model = keras.Sequential([keras.Input((2,)), Counting()])
    before, last = model.layers[0].calls, model.layers[0].last
    with models.calls_not_counted(model):
        model(np.zeros((1, 2)))
    assert (model.layers[0].calls, model.layers[0].last) == (before, last)
    model(np.zeros((1, 2)))
    assert model.layers[0].calls == before + 1
