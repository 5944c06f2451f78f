"""Which layers are trainable may change within a fit; a resumed fit trains the same layers."""

from __future__ import annotations

import json

import keras
import numpy as np

from oomph.resume.fit.model_state import Trained, is_made_anew, restore_changes


def frozen_head(small_model):
    model = small_model(keras.layers.Dense(3, trainable=False))
    model.make_train_function()
    return model


def test_unfrozen_layers_are_restored_and_the_step_is_rebuilt(small_model):
    killed = frozen_head(small_model)
    begin = Trained(killed)
    assert begin.now(killed)["layers"] == [True, True, False, True], "the model is one of them"
    killed.layers[0].trainable = True
    killed.make_train_function(force=True)
    kept = json.loads(json.dumps(begin.now(killed)))
    assert is_made_anew(kept)
    resumed = frozen_head(small_model)
    before = resumed.train_function
    restore_changes(resumed, kept)
    assert [layer.trainable for layer in resumed.layers] == [True, True]
    assert resumed.train_function is not before


def test_layers_unfrozen_without_a_rebuild_keep_the_step(small_model):
    killed = frozen_head(small_model)
    begin = Trained(killed)
    killed.layers[0].trainable = True
    resumed = frozen_head(small_model)
    before = resumed.train_function
    restore_changes(resumed, begin.now(killed))
    assert resumed.layers[0].trainable
    assert resumed.train_function is before


def test_a_trainable_layer_within_a_frozen_one_is_restored(small_model):
    def make():
        inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(3)])
        return small_model(inner), inner

    killed, inner = make()
    begin = Trained(killed)
    inner.trainable = False
    inner.layers[1].trainable = True
    resumed, again = make()
    restore_changes(resumed, begin.now(killed))
    assert [layer.trainable for layer in again._flatten_layers()] == [
        layer.trainable for layer in inner._flatten_layers()
    ]


def test_trainable_flags_change_only_if_the_checkpoint_matches_the_model(small_model):
    model = frozen_head(small_model)
    for kept in (None, {}, {"layers": [True]}, {"layers": [True, True, False, True]}, "x"):
        restore_changes(model, kept)
        assert not is_made_anew(kept)
    assert [layer.trainable for layer in model.layers] == [False, True]


def test_recompiling_a_model_is_detected(small_model):
    model = small_model()
    begin = Trained(model)
    model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)
    assert not begin.is_compiled_anew(model)
    model.compile("sgd", "mse")
    assert begin.is_compiled_anew(model)


def test_settings_changed_by_a_callback_are_restored(small_model):
    killed = small_model(keras.layers.Dropout(0.5))
    begin = Trained(killed)
    assert begin.now(killed)["settings"] == {}
    killed.layers[0].rate, killed.optimizer.weight_decay = 0.25, 0.01
    kept = json.loads(json.dumps(begin.now(killed)))
    resumed = small_model(keras.layers.Dropout(0.5))
    restore_changes(resumed, kept)
    assert (resumed.layers[0].rate, resumed.optimizer.weight_decay) == (0.25, 0.01)
    assert resumed.layers[0].seed_generator is not None


def test_a_checkpoint_cannot_set_other_attributes(small_model):
    resumed = small_model(keras.layers.Dropout(0.5))
    restore_changes(
        resumed, {"layers": [], "settings": {"Dropout 0": {"built": False, "call": "x"}, "Dropout 9": {"rate": 1.0}}}
    )
    assert resumed.layers[0].built
    assert callable(resumed.layers[0].call)
