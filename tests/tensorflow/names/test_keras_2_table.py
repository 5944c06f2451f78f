"""The private names of Keras 2: the installed one has all of them, and each object finds its own Keras."""

from __future__ import annotations

import importlib.util
import warnings
from types import ModuleType, SimpleNamespace

import keras
import pytest

from oomph.hooks.keras2 import install
from oomph.keras_bridge.dialects import KERAS_3, dialect_of, keras_2
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras2 import keras2
from oomph.keras_bridge.names.row import Feature, Global, rows_of

IS_BESIDE_KERAS_3 = keras.__version__.startswith("3.")
ROOT = next(
    (
        root
        for root in (("tf_keras.src",) if IS_BESIDE_KERAS_3 else ("keras.src", "keras"))
        if importlib.util.find_spec(root.partition(".")[0]) and importlib.util.find_spec(root)
    ),
    "",
)
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not ROOT, reason="needs Keras 2"),
]
_STEP = Feature.EXACT_STEP
ROWS = rows_of(keras2(ROOT or "tf_keras.src"))
ROWS += [row for row in keras2(ROOT or "tf_keras.src").documented if row not in ROWS]


@pytest.fixture(scope="module")
def older():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(ROOT.partition(".")[0])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_every_row_exists_in_the_installed_keras_2(row, older):
    assert row.exists(), f"{row.path} is gone from Keras {older.__version__}"
    assert not isinstance(row, Global) or row.value() is not None


def test_no_names_are_missing_from_keras_2(older):
    lacking = [row.path for row in support.missing(keras2(ROOT)) if row.library == "Keras"]
    assert lacking == []


def test_version_without_a_name_is_not_guarded_and_says_from_which_one_it_is(monkeypatch):
    monkeypatch.setattr(keras2(ROOT), "legacy_optimizer", Global(f"{ROOT}.optimizers.gone", "OptimizerV2", _STEP))
    support._missing.cache_clear()
    said = []
    session = SimpleNamespace(say=said.append)
    try:
        assert not install(ModuleType(f"{ROOT}.engine.training"), session)
    finally:
        support._missing.cache_clear()
    assert said == [
        "this Keras has no gone.OptimizerV2, so its fits are only supervised: they are guarded from Keras 2.12 on"
    ]


def test_each_object_has_the_dialect_of_its_own_keras(older):
    class Own(older.Model):
        pass

    of_keras_2 = [Own(), older.layers.Dense(1), older.optimizers.Adam(), older.metrics.Mean()]
    assert {dialect_of(thing) for thing in of_keras_2} == {keras_2(ROOT)}
    assert dialect_of(object()) is KERAS_3
    if IS_BESIDE_KERAS_3:
        assert dialect_of(keras.layers.Dense(1)) is dialect_of(keras.optimizers.Adam()) is KERAS_3
