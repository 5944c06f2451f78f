"""Random number generators from NumPy, Python and PyTorch."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from oomph.objects.arrays import array_as_value, value_as_array
from oomph.objects.kind import CannotGiveBackError, Decode, Encode, Kind, TypeNamed, pairs
from oomph.objects.values import Value

_BIT_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
_MOST = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1}
"""The largest valid buffer positions and flags. NumPy does not check them and would read beyond the buffer."""


_MOST_SPAWNED = 100_000


class NumpyRandom(Kind):
    """A NumPy generator: a `Generator`, a `RandomState`, or the bit generator inside one."""

    tag = "numpy random"

    def content(self, thing: Any, encode: Encode) -> Value:
        if isinstance(thing, np.random.RandomState):
            return ("RandomState", frozen(thing.get_state(legacy=False)))
        bits = _bit_generator(thing)
        return (type(bits).__name__, frozen(bits.state), _spawned(_seeds_of(bits)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if isinstance(thing, np.random.RandomState):
            thing.set_state(state_like(_thawed(content[1]), thing.get_state(legacy=False)))
        else:
            bits = _bit_generator(thing)
            bits.state = state_like(_thawed(content[1]), bits.state)
            _spawn_up_to(_seeds_of(bits), content[2])

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        if content[0] == "RandomState":
            return np.random.RandomState()
        if content[0] not in _BIT_GENERATORS:
            raise CannotGiveBackError(str(content[0]))
        return np.random.Generator(_BIT_GENERATORS[content[0]]())


class Seeds(Kind):
    """A `numpy.random.SeedSequence`: the number of children that it has spawned."""

    tag = "seeds of NumPy"

    def content(self, thing: Any, encode: Encode) -> Value:
        return _spawned(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        _spawn_up_to(thing, content)


class TorchRandom(Kind):
    """A `torch.Generator`, such as one that orders a DataLoader's batches."""

    tag = "random of PyTorch"

    def content(self, thing: Any, encode: Encode) -> Value:
        return (str(thing.device), thing.get_state().numpy().tobytes())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        state = thing.get_state().numpy()
        if content[0] != str(thing.device) or len(content[1]) != state.nbytes:
            raise CannotGiveBackError("a generator of a different kind")
        state[:] = np.frombuffer(content[1], np.uint8)
        thing.set_state(sys.modules["torch"].from_numpy(state))


class PythonRandom(Kind):
    """A `random.Random`."""

    tag = "random"

    def content(self, thing: Any, encode: Encode) -> Value:
        return random.Random.getstate(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        random.Random.setstate(thing, python_state(content))

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        return random.Random()


def state_like(state: Any, now: Any, name: str = "") -> Any:
    """Return the state if it has the same form as the current one. Raises CannotGiveBackError otherwise."""
    if type(now) is dict:
        if type(state) is not dict or state.keys() != now.keys():
            raise CannotGiveBackError("the state of a different generator")
        return {key: state_like(state[key], each, key) for key, each in now.items()}
    same = type(state) is type(now) or (type(now) is float and type(state) is int)
    if isinstance(now, np.ndarray):
        same = same and (state.shape, state.dtype) == (now.shape, now.dtype)
    elif name in _MOST:
        same = same and 0 <= state <= _MOST[name]
    elif type(now) is str:
        same = state == now
    if not same:
        raise CannotGiveBackError("the state of a different generator")
    return state


def python_state(state: Any) -> Any:
    """Return the state if it is valid for a `random.Random`. Raises CannotGiveBackError otherwise."""
    match state:
        case (3, tuple() as numbers, None | float()) if all(type(each) is int for each in numbers):
            return state
    raise CannotGiveBackError("the state of a different generator")


def _seeds_of(bits: Any) -> Any:
    """Return a bit generator's seeds, or None before NumPy 1.25, which hides them."""
    return getattr(bits, "seed_seq", None)


def _spawned(seeds: Any) -> int:
    return int(getattr(seeds, "n_children_spawned", 0))


def _spawn_up_to(seeds: Any, wanted: Value) -> None:
    """Spawn children up to the saved count, so that the next child gets the next seed. Raises CannotGiveBackError."""
    more = wanted - _spawned(seeds) if type(wanted) is int else -1
    if not 0 <= more <= _MOST_SPAWNED:
        raise CannotGiveBackError("seeds that have spawned other children")
    if more:
        seeds.spawn(more)


def _bit_generator(thing: Any) -> Any:
    return thing.bit_generator if isinstance(thing, np.random.Generator) else thing


def frozen(state: Any) -> Value:
    """Convert the state of a NumPy generator to a value."""
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
