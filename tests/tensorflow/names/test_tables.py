"""The private names that oomph relies on: the installed Keras and TensorFlow have each of them."""

from __future__ import annotations

import ast
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import oomph.keras_bridge
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Attribute, Feature, Global, rows_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

ROWS = [*rows_of(KERAS), *rows_of(TENSORFLOW)]
PRIVATE = [row for row in ROWS if row not in KERAS.documented]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_the_installed_versions_have_it(row):
    assert row.exists(), f"{row.path} is gone from Keras {keras.__version__} / TensorFlow {tf.__version__}"


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row, Global)], ids=lambda row: row.path)
def test_a_global_name_can_be_had(row):
    assert row.value() is not None or row is TENSORFLOW.global_generator


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_a_missing_name_switches_off_its_own_feature_and_no_other(row, monkeypatch):
    gone = type(row)(row.module, row.name + "_of_another", row.feature)
    assert not gone.exists()
    monkeypatch.setattr(support, "missing", lambda: (gone,))
    for feature in Feature:
        lacking = support.lacks(feature)
        assert lacking == (f"this {row.library} has no {gone}" if feature in row.feature else "")
    assert gone.feature.meaning


@pytest.mark.parametrize("cls", [Global, Attribute])
def test_a_module_that_is_gone_takes_its_names_along(cls):
    assert not cls("keras.src.trainers.gone", "anything", Feature.GUARD).exists()
    assert not cls("gone.altogether", "anything", Feature.GUARD).exists()


def test_a_name_that_replaces_another_is_not_missed():
    module = "keras.src.trainers.epoch_iterator"
    assert Attribute(module, "_of_an_older_keras", Feature.RESUME, beside="_of_an_even_older_keras").exists()
    assert not Attribute(module, "_of_an_older_keras", Feature.RESUME, beside="EpochIterator").exists()


def test_every_feature_is_served_by_a_row_and_has_its_words():
    for feature in Feature:
        assert any(feature in row.feature for row in ROWS), feature
        assert feature.meaning


def test_nothing_is_missing_here():
    assert support.missing() == ()


def _private_names_of(path: Path) -> set[str]:
    """Private attributes that are asked of anything but `self`, `cls` and oomph's own objects, and named in getattr."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr", "patch"):
            found |= {each.value for each in node.args[1:2] if isinstance(each, ast.Constant)}
    return found


def test_no_other_file_spells_a_private_name():
    names = {row.name for row in PRIVATE if row.name.startswith("_")}
    folder = Path(oomph.keras_bridge.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.parent.name != "names":
            assert not _private_names_of(path) & names, path
