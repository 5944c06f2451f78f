"""The private names that oomph relies on: the installed Keras and TensorFlow have all of them."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import keras
import pytest
import tensorflow as tf

import oomph
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras2 import keras2
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Attribute, Feature, Global, rows_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

ROWS = [*rows_of(KERAS), *rows_of(TENSORFLOW)]
PRIVATE = [row for row in ROWS if row not in KERAS.documented]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_every_row_exists_in_the_installed_versions(row):
    assert row.exists(), f"{row.path} is gone from Keras {keras.__version__} / TensorFlow {tf.__version__}"


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row, Global)], ids=lambda row: row.path)
def test_every_global_name_in_the_table_resolves_to_a_value(row):
    assert row.value() is not None or row is TENSORFLOW.global_generator


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_a_missing_name_disables_only_the_features_that_need_it(row, monkeypatch):
    gone = type(row)(row.module, row.name + "_of_another", row.feature)
    assert not gone.exists()
    monkeypatch.setattr(support, "missing", lambda: (gone,))
    for feature in Feature:
        lacking = support.lacks(feature)
        assert lacking == (f"this {row.library} has no {gone}" if feature in row.feature else "")
    assert gone.feature.meaning


@pytest.mark.parametrize("cls", [Global, Attribute])
def test_names_in_a_missing_module_are_reported_as_nonexistent(cls):
    assert not cls("keras.src.trainers.gone", "anything", Feature.GUARD).exists()
    assert not cls("gone.altogether", "anything", Feature.GUARD).exists()


def test_replaced_name_is_not_reported_as_missing():
    module = "keras.src.trainers.epoch_iterator"
    assert Attribute(module, "_of_an_older_keras", Feature.RESUME, beside="_of_an_even_older_keras").exists()
    assert not Attribute(module, "_of_an_older_keras", Feature.RESUME, beside="EpochIterator").exists()


class Holder:
    """An object from some version of a library, to which attributes can be added."""


def holding(**attributes):
    holder = Holder()
    vars(holder).update(attributes)
    return holder


WITH_ALIAS = [(row, alias) for row in ROWS for alias in row.also]
ATTRIBUTES = [(row, alias) for row, alias in WITH_ALIAS if isinstance(row, Attribute)]
ATTRIBUTES += [(Attribute("keras.src.trainers.trainer", "_name", Feature.GUARD, also=("_alias", "_last")), "_last")]
GLOBALS = [(row, alias) for row, alias in WITH_ALIAS if isinstance(row, Global)]


@pytest.mark.parametrize(("row", "alias"), ATTRIBUTES, ids=lambda value: getattr(value, "name", value))
def test_an_attribute_is_found_under_its_alias(row, alias):
    holder = holding(**{alias: 1})
    assert row.on(holder)
    assert (row.of(holder), row.get(holder), row.get(holder, 5), row.name_on(holder)) == (1, 1, 1, alias)
    row.put(holder, 2)
    assert vars(holder) == {alias: 2}
    assert row.call(holding(**{alias: lambda *args, **named: (args, named)}), 3, key=4) == ((3,), {"key": 4})


@pytest.mark.parametrize(("row", "alias"), ATTRIBUTES, ids=lambda value: getattr(value, "name", value))
def test_attribute_with_several_names_is_read_by_its_first_name(row, alias):
    holder = holding(**{alias: 1, row.name: 2})
    assert (row.of(holder), row.get(holder), row.name_on(holder)) == (2, 2, row.name)
    row.put(holder, 3)
    assert vars(holder) == {alias: 1, row.name: 3}


@pytest.mark.parametrize(("row", "alias"), ATTRIBUTES, ids=lambda value: getattr(value, "name", value))
def test_a_missing_attribute_is_set_under_the_installed_modules_name(row, alias, monkeypatch):
    assert not row.on(Holder())
    assert row.get(Holder(), 5) == 5
    with pytest.raises(AttributeError):
        row.of(Holder())
    for known, expected in ((alias, alias), (row.name, row.name), ("another", row.name)):
        monkeypatch.setattr("oomph.keras_bridge.names.row._names_in", lambda module, known=known: frozenset({known}))
        holder = Holder()
        row.put(holder, 1)
        assert vars(holder) == {expected: 1}


@pytest.mark.parametrize(("row", "alias"), GLOBALS, ids=lambda value: getattr(value, "name", value))
def test_a_global_is_found_under_its_alias(row, alias, monkeypatch):
    module = ModuleType(row.module)
    vars(module)[alias] = value = object()
    monkeypatch.setitem(sys.modules, row.module, module)
    assert row.exists()
    assert row.value() is value
    assert row.place == (module, alias)
    assert row.path == f"{row.module}.{alias}"


def test_every_feature_has_a_row_and_a_description():
    for feature in Feature:
        assert any(feature in row.feature for row in ROWS), feature
        assert feature.meaning


def test_no_names_are_missing_from_the_installed_versions():
    assert support.missing() == ()


def _private_names_of(path: Path) -> set[str]:
    """Yield attributes accessed on anything but `self` and `cls`, and whole strings, which may be names for getattr."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


@pytest.mark.parametrize(
    "room",
    [
        "api",
        "exact_step",
        "hooks",
        "keras_bridge",
        "objects",
        "resume",
        "monitor/live",
        "planning/live",
        "preflight/live",
        "reach/live",
    ],
)
def test_private_names_appear_only_in_the_name_tables(room):
    rows = [*PRIVATE, *rows_of(keras2("tf_keras.src"))]
    names = {name for row in rows for name in row.names if name.startswith("_") and name != "__version__"}
    for path in sorted((Path(oomph.__file__).parent / room).rglob("*.py")):
        if path.parent.name != "names":
            assert not _private_names_of(path) & names, path


def test_every_public_name_that_is_imported_exists():
    """Type checking does not cover Keras and TensorFlow, and a function's imports run only when it is called."""
    folder = Path(oomph.__file__).parent
    found = {
        (node.module, name.name)
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in ("keras", "tensorflow", "numpy")
        for name in node.names
    }
    assert ("keras.callbacks", "History") in found
    for module, name in sorted(found):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
