"""The single mechanism for replacing Keras and TensorFlow code: installed, restored, seen from another thread."""

from __future__ import annotations

import threading
from types import ModuleType

import keras
import pytest

from oomph.keras_bridge.runtime.patching import patch, replaced, while_tracing


class Base:
    def step(self):
        return "base"

    @staticmethod
    def fixed():
        return "fixed"


class Derived(Base):
    pass


def in_another_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(10)
    return found[0]


def test_a_method_of_a_class_is_replaced_and_restored():
    undo = patch(Base, "step", lambda self: "mine")
    assert (Base().step(), Derived().step()) == ("mine", "mine")
    undo()
    assert (Base().step(), Derived().step()) == ("base", "base")


def test_inherited_method_is_inherited_again_after_undo():
    undo = patch(Derived, "step", lambda self: "mine")
    assert (Derived().step(), Base().step()) == ("mine", "base")
    undo()
    assert Derived().step() == "base"
    assert "step" not in vars(Derived)


def test_a_static_method_is_restored_as_a_static_method():
    undo = patch(Base, "fixed", staticmethod(lambda: "mine"))
    assert Base().fixed() == "mine"
    undo()
    assert Base().fixed() == "fixed"
    assert isinstance(vars(Base)["fixed"], staticmethod)


def test_patching_one_object_leaves_others_unchanged():
    one, other = Base(), Base()
    with replaced(one, "step", lambda: "mine"):
        assert (one.step(), other.step()) == ("mine", "base")
    assert one.step() == "base"
    assert not vars(one)


def test_a_module_function_is_replaced_and_restored():
    module = ModuleType("made_up")
    module.function = original = lambda: "original"
    with replaced(module, "function", lambda: "mine"):
        assert module.function() == "mine"
    assert module.function is original
    with replaced(module, "new", 1):
        assert module.new == 1
    assert not hasattr(module, "new")


def test_the_original_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), replaced(Base, "step", lambda self: 1 / 0):
        Base().step()
    assert Base().step() == "base"


def test_nested_patches_are_undone_in_reverse_order():
    with replaced(Base, "step", lambda self: "outer"):
        with replaced(Base, "step", lambda self: "inner"):
            assert Base().step() == "inner"
        assert Base().step() == "outer"
    assert Base().step() == "base"


def test_a_keras_layer_does_not_track_a_variable_patched_onto_it():
    layer = keras.layers.Dense(1)
    layer.build((None, 2))
    tracked = len(layer.variables)
    with replaced(layer, "call", keras.Variable([1.0])):
        assert len(layer.variables) == tracked
    assert layer.call.__func__ is keras.layers.Dense.call


def test_a_function_replaced_while_tracing_is_unchanged_in_other_threads():
    here = threading.local()

    def original(number):
        """Doc."""
        return number

    function = while_tracing(
        original, lambda: getattr(here, "mine", None), lambda mine, was, number: mine + was(number)
    )
    assert function(1) == 1
    here.mine = 10
    assert function(1) == 11
    assert in_another_thread(lambda: function(1)) == 1
    here.mine = None
    assert function(1) == 1
    assert (function.__name__, function.__doc__) == ("original", "Doc.")
