"""What the walk reaches from the roots, under names that are the same in every attempt, and where it stops."""

from __future__ import annotations

import logging
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge import code
from oomph.objects.picture import Picture
from oomph.objects.table import OPAQUE, kind_of, kind_of_tag
from oomph.objects.walk import walk

SETTINGS = {"rate": [0.5]}
UNUSED = [1]


def uses_settings():
    return SETTINGS["rate"]


class Base:
    registry = []  # noqa: RUF012


class Thing(Base):
    def __init__(self, *parts):
        self.parts = list(parts)

    def use(self):
        return uses_settings()


def keys(*roots):
    return set(walk(roots).nodes)


def test_object_is_named_after_its_shortest_path():
    shared = [1]
    found = keys(("one", Thing(Thing(Thing(shared)))), ("other", [shared]))
    assert "other[0]" in found
    assert not any(key.startswith("one.parts[0].parts[0].parts[0]") for key in found)


def test_object_names_and_fingerprint_are_the_same_in_every_attempt():
    def make():
        return [("callback Thing", Thing({"b": [1], "a": (2, [3])}, random.Random(1), np.zeros(3)))]

    assert list(walk(make()).nodes) == list(walk(make()).nodes)
    assert Picture.of(make()).fingerprint() == Picture.of(make()).fingerprint()


def test_only_globals_referenced_by_code_are_reached():
    found = keys(("callback Thing", Thing()))
    assert f"global of {__name__}: SETTINGS[rate]".replace("[rate]", "['rate']") in found
    assert not any("UNUSED" in key for key in found)
    assert "class Base.registry" in found or any("registry" in key for key in found)


def test_library_objects_are_not_examined():
    things = [np, tf, keras.layers.Dense, logging.getLogger("x"), print, tf.constant, object(), type, int]
    graph = walk([("root", things)])
    assert all(node.kind is OPAQUE for key, node in graph.nodes.items() if key != "root")


def test_separately_saved_objects_are_known_but_not_examined():
    variable = tf.Variable(1.0)
    graph = walk([("root", [variable])], saved_elsewhere=frozenset([id(variable)]))
    assert graph.elsewhere == {"root[0]"}
    assert graph.nodes["root[0]"].kind is OPAQUE


def test_later_walk_keeps_names_and_gives_new_objects_unused_names():
    things = [[1], [2]]
    before = walk([("root", things)])
    first = things.pop(0)
    things += [[3], first]
    after = walk([("root", things)], before)
    assert after.by_id[id(first)].key == "root[0]"
    assert after.by_id[id(things[0])].key == "root[1]"
    assert after.by_id[id(things[1])].key == "root[1] (2)"


def test_a_new_object_with_a_reused_id_gets_a_new_name():
    holder = [[n] for n in range(50)]
    before = walk([("root", holder)])
    holder[:] = [[n] for n in range(50)]
    after = walk([("root", holder)], before)
    assert not set(before.nodes) & set(after.nodes) - {"root"}


def test_shortened_long_names_remain_unique():
    things = {"x" * 5000 + end: [end] for end in "ab"}
    found = [key for key in walk([("root", things)]).nodes if key != "root"]
    assert len(set(found)) == 2
    assert all(len(key) < 400 for key in found)


@pytest.mark.parametrize(
    "thing", [[], {}, set(), np.zeros(1), np.zeros(1, object), random.Random(), tf.Variable(1.0), Thing()]
)
def test_every_kind_is_found_by_its_tag(thing):
    kind = kind_of(thing)
    assert type(kind_of_tag(kind.tag)) is type(kind)


def test_unknown_tag_raises_value_error():
    for tag in ("", "nothing", "library object"):
        with pytest.raises(ValueError, match="unknown kind of object"):
            kind_of_tag(tag)


def test_names_used_by_nested_code_are_found():
    def function():
        def inner():
            return SETTINGS.keys()

        return [UNUSED for _ in inner()]

    found = code.names_in(function.__code__)
    assert {"SETTINGS", "UNUSED"} <= found.globals
    assert "keys" in found.attributes


def test_user_modules_are_distinguished_from_installed_ones():
    assert code.is_users(__name__)
    assert code.is_users("__main__")
    for module in ("keras", "numpy", "random", "oomph.journal.journal", "pytest", "nowhere", "builtins"):
        assert not code.is_users(module)


def test_keras_attributes_of_a_callback_are_distinguished_from_custom_ones():
    class Own(keras.callbacks.EarlyStopping):
        def __init__(self):
            super().__init__()
            self.mine = 1

    theirs = code.set_by_libraries(Own)
    assert {"model", "_model", "params", "wait", "best"} & theirs
    assert "mine" not in theirs
