"""Random number generators of NumPy and Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from oomph.tensorflow.objects.arrays import array_as_value, value_as_array
from oomph.tensorflow.objects.kind import CannotGiveBackError, Decode, Encode, Kind, pairs
from oomph.tensorflow.objects.values import Value


class NumpyRandom(Kind):
    """A NumPy generator: `Generator`, `RandomState`, or the bit generator within."""

    tag = "numpy random"

    def content(self, thing: Any, encode: Encode) -> Value:
        if isinstance(thing, np.random.RandomState):
            return ("RandomState", frozen(thing.get_state(legacy=False)))
        bits = _bit_generator(thing)
        return (type(bits).__name__, frozen(bits.state))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if isinstance(thing, np.random.RandomState):
            thing.set_state(_thawed(content[1]))
        else:
            _bit_generator(thing).state = _thawed(content[1])

    def shell(self, content: Value) -> Any:
        if content[0] == "RandomState":
            return np.random.RandomState()
        kind = getattr(np.random, content[0], None)
        if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
            raise CannotGiveBackError(str(content[0]))
        return np.random.Generator(kind())


class PythonRandom(Kind):
    """A `random.Random`."""

    tag = "random"

    def content(self, thing: Any, encode: Encode) -> Value:
        return random.Random.getstate(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        random.Random.setstate(thing, content)

    def shell(self, content: Value) -> Any:
        return random.Random()


def _bit_generator(thing: Any) -> Any:
    return thing.bit_generator if isinstance(thing, np.random.Generator) else thing


def frozen(state: Any) -> Value:
    """The state of a NumPy generator as a value."""
    if isinstance(state, dict):
        return ("dict", *(each for key, value in state.items() for each in (key, frozen(value))))
    if isinstance(state, np.ndarray):
        return array_as_value(state)
    return state.item() if isinstance(state, np.generic) else state


def _thawed(value: Value) -> Any:
    if type(value) is not tuple:
        return value
    if value[0] == "dict":
        return {key: _thawed(each) for key, each in pairs(value[1:])}
    return value_as_array(value)
