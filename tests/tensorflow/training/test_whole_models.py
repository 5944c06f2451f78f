"""Where a script saves and reloads a whole model, and whether Keras can: read and tried, but never written."""

from __future__ import annotations

import contextlib
import json
import runpy
import warnings
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from oomph.preflight.live.fit_facts import saving_facts
from oomph.resume.fit.reporting import _found
from oomph.resume.training.whole_models import Load, Save, cannot_be_saved, saves_ahead

pytestmark = pytest.mark.filterwarnings("ignore:__array__")  # from NumPy, about Keras

LAYERS = """
import keras
class Odd(keras.layers.Layer):
    def __init__(self, table):
        super().__init__()
        self.table = table
    def call(self, x):
        return x
class Even(keras.layers.Layer):
    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor
    def call(self, x):
        return x
    def get_config(self):
        return {**super().get_config(), "factor": self.factor}
class Half(Even):
    def __init__(self, factor, rest, **kwargs):
        super().__init__(factor, **kwargs)
class Rate(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1
"""


def own(layer, optimizer="adam", loss="mse"):
    """Return a model with one of the script's own layers."""
    names = {"__name__": "own"}
    exec(LAYERS, names)
    model = keras.Sequential([keras.Input((3,)), eval(layer, names), keras.layers.Dense(1)])
    model.compile(eval(optimizer, names) if "(" in optimizer else optimizer, loss)
    return model


@pytest.mark.parametrize(
    ("layer", "optimizer", "culprit", "words"),
    [
        ("Even(2.0)", "adam", None, ""),
        ("Odd(3)", "adam", None, ""),  # Keras creates the configuration of plain arguments itself
        ("Odd(object())", "adam", "Odd", "must override `get_config()`"),
        ("Even(object())", "adam", "Even", "Cannot serialize object"),
        ("Even()", "keras.optimizers.Adam(Rate())", "Rate", "must override `get_config()`"),
    ],
)
@pytest.mark.parametrize("path", ["m.keras", "m.h5"])
def test_model_is_reported_as_unsavable_exactly_if_keras_refuses_it(tmp_path, layer, optimizer, culprit, words, path):
    model = own(layer, optimizer)
    trouble = cannot_be_saved(model, path)
    with contextlib.nullcontext() if culprit is None else pytest.raises((NotImplementedError, TypeError)) as raised:
        model.save(tmp_path / path)
    assert (trouble is None) == (culprit is None)
    if trouble is not None:
        assert (trouble.error, trouble.culprit) == (raised.type.__name__, culprit)
        assert words in trouble.words


SCRIPT = """
import pathlib
def load(path): pass
path = "best.keras"
folder = pathlib.Path("out")
def train():
    ask()
    net.save(folder / "last.keras"){rest}
if __name__ == "__main__":
    train()
    other.save("other.keras")
    net.save_weights("w.weights.h5")
"""


def asked(tmp_path, rest="", callbacks=()):
    model, other = own("Even()"), own("Even()")
    found = []
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.replace("{rest}", rest))
    runpy.run_path(
        str(file),
        {"net": model, "other": other, "keras": keras, "ask": lambda: found.extend(saves_ahead(model, callbacks))},
        "__main__",
    )
    return found


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", [Save("model.save", "last.keras", "script.py:8")]),
        (
            '\n    load_model = load\n    load_model(folder / "last.keras")',
            [Save("model.save", "last.keras", "script.py:8", Load("script.py:10"))],
        ),
        (
            '\n    load_model = lambda *a, **k: 0\n    load_model("last.keras", custom_objects={}, compile=False)',
            [Save("model.save", "last.keras", "script.py:8", Load("script.py:10", False, True))],
        ),
        (
            '\n    if "x" in globals():\n        net.save("never.keras")\n    try:\n        net.save("a.keras")\n'
            "    except OSError:\n        pass",
            [Save("model.save", "last.keras", "script.py:8")],
        ),
        (
            '\n    net.load_weights(folder / "last.keras")',
            [Save("model.save", "last.keras", "script.py:8", gives_weights=True)],
        ),
        ('\n    net.save(str(folder) + ".h5")', [
            Save("model.save", "last.keras", "script.py:8"), Save("model.save", ".h5", "script.py:9")
        ]),
    ],
)  # fmt: skip
def test_only_calls_certain_to_save_this_model_are_found(tmp_path, monkeypatch, rest, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    assert asked(tmp_path, rest) == expected


def test_only_callbacks_saving_whole_models_with_keras_are_found():
    callbacks = [
        keras.callbacks.ModelCheckpoint("a.keras"),
        keras.callbacks.ModelCheckpoint("b.weights.h5", save_weights_only=True),
        keras.callbacks.BackupAndRestore("c"),
        type("Own", (keras.callbacks.ModelCheckpoint,), {"_save_model": lambda *args: None})("d.keras"),
    ]
    assert list(saves_ahead(own("Even()"), callbacks)) == [Save("ModelCheckpoint", "a.keras")]


def test_a_model_with_its_own_save_method_is_not_checked():
    model = type("Own", (keras.Sequential,), {"save": lambda *args, **kwargs: None})([keras.layers.Dense(1)])
    assert list(saves_ahead(model, [keras.callbacks.ModelCheckpoint("a.keras")])) == []


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("Even(2.0)", ""),
        ("Half(2.0, 1)", "missing 1 required positional argument: 'rest'"),
        ("Odd(3)", "unexpected keyword argument 'trainable'"),  # __init__ does not accept **kwargs
    ],
)
def test_errors_in_loading_a_saved_model_are_found_by_trying_it(layer, words):
    model = own(layer)
    (saved,) = saving_facts(model, [keras.callbacks.ModelCheckpoint("a.keras")], loads=True)
    assert saved.trouble == ""
    assert words in saved.load_trouble
    assert bool(saved.load_trouble) == bool(words)
    assert not saved.is_own_load


class Drawing(keras.layers.Layer):
    def call(self, inputs):
        return inputs

    def get_config(self):
        np.random.rand()
        raise NotImplementedError("of a table of my own")


def test_a_failing_model_checkpoint_is_found_without_drawing_random_numbers():
    model = keras.Sequential([keras.Input((3,)), Drawing(), keras.layers.Dense(1)])
    fit = SimpleNamespace(model=model, callbacks=[keras.callbacks.ModelCheckpoint("a.keras")])
    np.random.seed(1)
    (finding,) = _found(fit)
    assert np.random.rand() == np.random.RandomState(1).rand()
    assert (finding.fault, finding.severity) == ("checkpoint-failure", "critical")
    assert "Give Drawing a get_config" in finding.remedy


def test_trial_save_neither_writes_a_file_nor_changes_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = own("Even(2.0)")
    before = model.get_weights(), json.dumps(model.get_config())
    list(saving_facts(model, [keras.callbacks.ModelCheckpoint("a.keras")], loads=True))
    assert list(tmp_path.iterdir()) == []
    assert all(np.array_equal(was, now) for was, now in zip(before[0], model.get_weights(), strict=True))
    assert json.dumps(model.get_config()) == before[1]


@pytest.mark.parametrize("layer", ["Even(2.0)", "Odd(object())"])
def test_trial_save_does_not_repeat_the_scripts_warnings(layer):
    def told():
        warnings.warn("told once", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        for _ in range(3):
            told()
            cannot_be_saved(own(layer), "m.keras")
    assert [str(each.message) for each in heard if each.category is UserWarning].count("told once") == 1
