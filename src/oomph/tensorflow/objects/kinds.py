"""Kinds of objects: what is in one, how that is written down, and how it is put back.

Each kind knows four things of an object: its `parts` (the objects in it, and how each is reached), its `content` (a
comparable value that refers to its parts), how to `give_back` a content to an object in place, and how to `build` an
object that did not exist before. One that can only be built is put where the old one was; one that can neither is
noted, and lost after a restart.
"""

from __future__ import annotations

import collections
import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from oomph.tensorflow import fingerprints
from oomph.tensorflow.objects import code, values
from oomph.tensorflow.objects.values import PLAIN, CannotEncodeError, Value

Part = tuple[str, Any]
"""How a part is reached, in words that are the same in every attempt, and the part."""
Encode = Callable[[Any], Value]
Decode = Callable[[Value], Any]


class CannotGiveBackError(Exception):
    """An object of this kind cannot be changed in place, or not be built."""


class OutsideError(Exception):
    """What is referred to is no state of the training: a lock, an open file, a connection."""


class Kind:
    """One kind of objects; this one holds nothing that can be looked at, and never seems to change."""

    tag = "opaque"
    in_place = True
    """Whether `give_back` can change an object as it is."""
    arrays = False
    """Whether the content is large, and is kept as an array beside it."""

    def parts(self, thing: Any) -> Iterator[Part]:
        """The objects in it."""
        return iter(())

    def content(self, thing: Any, encode: Encode) -> Value:
        """What is in it, as a value that can be compared."""
        return None

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        """Make it what it was; raises CannotGiveBackError."""
        raise CannotGiveBackError(type(thing).__name__)

    def shell(self, content: Value) -> Any:
        """A new object that `give_back` fills, so that it may refer to itself; raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)

    def build(self, content: Value, decode: Decode) -> Any:
        """A new object of a kind that cannot be filled; raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)


# -- containers -------------------------------------------------------------------------------------------------------


class Mapping(Kind):
    """A dict, or one of its relatives in `collections`."""

    tag = "mapping"
    _bases = (collections.OrderedDict, collections.defaultdict, collections.Counter, dict)

    def parts(self, thing: Any) -> Iterator[Part]:
        if type(thing) is collections.defaultdict:
            yield " factory", thing.default_factory
        if not _all_plain(dict.keys(thing)) or not _all_plain(dict.values(thing)):
            for number, (key, value) in enumerate(self._items_of(thing)):
                at = f"[{key!r}]" if type(key) in PLAIN else f"[item {number}]"
                if type(key) not in PLAIN:
                    yield f"[key {number}]", key
                yield at, value

    def content(self, thing: Any, encode: Encode) -> Value:
        base = self._base(type(thing))
        factory = encode(thing.default_factory) if base is collections.defaultdict else None
        flat = itertools.chain.from_iterable(self._items_of(thing))
        if _all_plain(dict.keys(thing)) and _all_plain(dict.values(thing)):
            return (base.__name__, factory, *flat)
        return (base.__name__, factory, *map(encode, flat))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        base = self._base(type(thing))
        items = self._items(content, decode, thing)
        if base is collections.defaultdict:
            thing.default_factory = decode(content[1])
        base.clear(thing)
        for key, value in items:
            base.__setitem__(thing, key, value)

    def shell(self, content: Value) -> Any:
        base = next((base for base in self._bases if base.__name__ == content[0]), None)
        if base is None:
            raise CannotGiveBackError(str(content[0]))
        return base()

    def _items_of(self, thing: Any) -> list[tuple[Any, Any]]:
        """Its items in their order, which an OrderedDict keeps apart."""
        return list(
            collections.OrderedDict.items(thing) if isinstance(thing, collections.OrderedDict) else dict.items(thing)
        )

    def _items(self, content: Value, decode: Decode, thing: Any) -> list[tuple[Any, Any]]:
        items = []
        for encoded, value in _pairs(content[2:]):
            key = decode(encoded)
            try:
                items.append((key, decode(value)))
            except OutsideError:
                if dict.__contains__(thing, key):
                    items.append((key, dict.__getitem__(thing, key)))
        return items

    def _base(self, kind: type) -> Any:
        return next(base for base in self._bases if issubclass(kind, base))


class Sequence(Kind):
    """A list, a deque, or a set: what holds its items alone."""

    tag = "sequence"

    def __init__(self, base: Any, empty_and_fill: Callable[[Any, list[Any]], None]) -> None:
        self._base, self._fill = base, empty_and_fill
        self.tag = base.__name__

    def parts(self, thing: Any) -> Iterator[Part]:
        items = self._items(thing)
        if not _all_plain(items):
            yield from ((f"[{number}]", item) for number, item in enumerate(items))

    def content(self, thing: Any, encode: Encode) -> Value:
        items = self._items(thing)
        limit = thing.maxlen if self._base is collections.deque else None
        return (limit, *(items if _all_plain(items) else map(encode, items)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        self._fill(thing, [decode(each) for each in content[1:]])

    def shell(self, content: Value) -> Any:
        return collections.deque(maxlen=content[0]) if self._base is collections.deque else self._base()

    def _items(self, thing: Any) -> list[Any]:
        items = list(self._base.__iter__(thing))
        if self._base is set and _all_plain(items):
            items.sort(key=repr)  # the order of a set is no part of it
        return items


def fill_list(thing: Any, items: list[Any]) -> None:
    list.__setitem__(thing, slice(None), items)


def fill_deque(thing: Any, items: list[Any]) -> None:
    collections.deque.clear(thing)
    collections.deque.extend(thing, items)


def fill_set(thing: Any, items: list[Any]) -> None:
    set.clear(thing)
    set.update(thing, items)


class Bytes(Kind):
    """A bytearray."""

    tag = "bytearray"

    def content(self, thing: Any, encode: Encode) -> Value:
        return bytes(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        thing[:] = content

    def shell(self, content: Value) -> Any:
        return bytearray()


# -- numbers ----------------------------------------------------------------------------------------------------------


class Large(NamedTuple):
    """Stands for an array in a content: two with the same fingerprint are the same."""

    fingerprint: str
    dtype: str
    shape: tuple[int, ...]


class Array(Kind):
    """A NumPy array of numbers."""

    tag = "array"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        return ("large", *Large(fingerprints.of_array(thing), values.text_of(thing.dtype), tuple(thing.shape)))

    def array(self, thing: Any) -> Any:
        """Its values, copied."""
        return np.array(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        array = decode(content)
        if thing.shape != array.shape or thing.dtype != array.dtype or not thing.flags.writeable:
            raise CannotGiveBackError("an array of another shape")
        np.copyto(thing, array)

    def build(self, content: Value, decode: Decode) -> Any:
        return decode(content)


class ObjectArray(Kind):
    """A NumPy array of Python objects."""

    tag = "object array"

    def parts(self, thing: Any) -> Iterator[Part]:
        items = thing.reshape(-1).tolist()
        if not _all_plain(items):
            yield from ((f"[{number}]", item) for number, item in enumerate(items))

    def content(self, thing: Any, encode: Encode) -> Value:
        items = thing.reshape(-1).tolist()
        return (tuple(thing.shape), *(items if _all_plain(items) else map(encode, items)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if tuple(content[0]) != thing.shape:
            raise CannotGiveBackError("an array of another shape")
        thing.reshape(-1)[:] = [decode(each) for each in content[1:]]

    def shell(self, content: Value) -> Any:
        return np.empty(tuple(content[0]), dtype=object)


class NumpyRandom(Kind):
    """A generator of NumPy's: `Generator`, `RandomState`, or the bit generator within."""

    tag = "numpy random"

    def content(self, thing: Any, encode: Encode) -> Value:
        if isinstance(thing, np.random.RandomState):
            return ("RandomState", _frozen(thing.get_state(legacy=False)))
        bits = _bit_generator(thing)
        return (type(bits).__name__, _frozen(bits.state))

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


class Variable(Kind):
    """A `tf.Variable`, or Keras' variable around one."""

    tag = "variable"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        return Array().content(self.array(thing), encode)

    def array(self, thing: Any) -> Any:
        """Its value, copied."""
        return np.array(_tensorflow_variable(thing).numpy())

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        array = decode(content)
        variable = _tensorflow_variable(thing)
        if not variable.shape.is_compatible_with(array.shape):
            raise CannotGiveBackError("a variable of another shape")
        variable.assign(tf.constant(array, variable.dtype))

    def build(self, content: Value, decode: Decode) -> Any:
        return tf.Variable(decode(content))


class Tensor(Kind):
    """An eager tensor: it never changes."""

    tag = "tensor"
    in_place = False
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        array = thing.numpy()
        if thing.dtype == tf.string:
            return _array_as_value(np.asarray(array, dtype=object))
        return Array().content(np.asarray(array), encode)

    def array(self, thing: Any) -> Any:
        """Its value, copied."""
        return np.array(thing.numpy())

    def build(self, content: Value, decode: Decode) -> Any:
        return tf.constant(decode(content) if content[0] == "large" else _value_as_array(content))


class Table(Kind):
    """A mutable hash table of TensorFlow's."""

    tag = "table"

    def content(self, thing: Any, encode: Encode) -> Value:
        keys, found = thing.export()
        return tuple(_array_as_value(tensor.numpy()) for tensor in (keys, found))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        keys, found = (tf.constant(_value_as_array(each)) for each in content)
        thing.remove(thing.export()[0])
        thing.insert(keys, found)


# -- iterators --------------------------------------------------------------------------------------------------------


class BuiltinIterator(Kind):
    """An iterator that Python itself can take apart: over a list, `count`, `cycle`, `enumerate`, `zip`."""

    tag = "iterator"
    in_place = False

    def parts(self, thing: Any) -> Iterator[Part]:
        _, arguments, *state = _reduced(thing)
        yield from ((f"[{number}]", each) for number, each in enumerate((*arguments, *state)))

    def content(self, thing: Any, encode: Encode) -> Value:
        made_by, arguments, *state = _reduced(thing)
        return (made_by, tuple(map(encode, arguments)), *map(encode, state[:1]))

    def build(self, content: Value, decode: Decode) -> Any:
        made_by, arguments, *state = content
        if made_by not in _MAKERS:
            raise CannotGiveBackError(str(made_by))
        made = _MAKERS[made_by](*map(decode, arguments))
        settled = decode(state[0]) if state else None
        if settled is not None:
            made.__setstate__(settled)
        return made


class Generator(Kind):
    """A Python generator: what its frame holds can be seen, and a new one be run until its frame holds the same."""

    tag = "generator"
    _most_steps = 1_000_000

    def parts(self, thing: Any) -> Iterator[Part]:
        frame = thing.gi_frame
        if frame is not None:
            yield from ((f" in {thing.__name__}: {name}", value) for name, value in dict(frame.f_locals).items())

    def content(self, thing: Any, encode: Encode) -> Value:
        frame = thing.gi_frame
        if frame is None:
            return ("ended",)
        local = dict(frame.f_locals)
        return (frame.f_lasti, *(each for name, value in local.items() for each in (name, encode(value))))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        raise CannotGiveBackError("a generator")


# -- objects with attributes ------------------------------------------------------------------------------------------


class Instance(Kind):
    """An object with attributes: those in its `__dict__`, and in its slots."""

    tag = "instance"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield from ((f".{name}", value) for name, value in self.attributes(thing).items())

    def attributes(self, thing: Any) -> dict[str, Any]:
        """The attributes that are the user's own, by their names."""
        kind: Any = type(thing)
        theirs = code.set_by_libraries(kind)
        found = {name: value for name, value in dict_of(thing).items() if name not in theirs}
        for slot in _slots_of(kind):
            try:
                found[slot] = object.__getattribute__(thing, slot)
            except AttributeError:
                pass  # not set
        return found

    def content(self, thing: Any, encode: Encode) -> Value:
        found = self.attributes(thing)
        kind = type(thing)
        return (f"{kind.__module__}:{kind.__qualname__}", *(e for n, v in found.items() for e in (n, encode(v))))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        wanted = dict(_pairs(content[1:]))
        for name in self.attributes(thing):
            if name not in wanted:
                self._remove(thing, name)
        for name, value in _decoded(wanted.items(), decode):
            self._set(thing, name, value)

    def shell(self, content: Value) -> Any:
        kind = values.looked_up(content[0])
        if not isinstance(kind, type) or not is_data(kind):
            raise CannotGiveBackError(str(content[0]))
        return object.__new__(kind)

    def _set(self, thing: Any, name: str, value: Any) -> None:
        kind: Any = type(thing)
        if name in _slots_of(kind):
            object.__setattr__(thing, name, value)
        else:
            dict_of(thing)[name] = value

    def _remove(self, thing: Any, name: str) -> None:
        kind: Any = type(thing)
        if name in _slots_of(kind):
            object.__delattr__(thing, name)
        else:
            dict_of(thing).pop(name, None)


class Class(Kind):
    """A class of the user's: what it holds besides methods, and the methods for what they refer to."""

    tag = "class"

    def parts(self, thing: Any) -> Iterator[Part]:
        for name, member in list(vars(thing).items()):
            if self._is_state(name, member):
                yield f".{name}", member
            else:
                yield from ((f".{name}", function) for function in code.functions_in(member))
        for number, base in enumerate(thing.__mro__[1:]):
            if code.is_users(base.__module__):
                yield f" base {number}", base

    def content(self, thing: Any, encode: Encode) -> Value:
        state = {name: member for name, member in list(vars(thing).items()) if self._is_state(name, member)}
        return tuple(each for name, member in state.items() for each in (name, encode(member)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        for name, value in _decoded(_pairs(content), decode):
            type.__setattr__(thing, name, value)

    def _is_state(self, name: str, member: Any) -> bool:
        kind = type(member)
        if name.startswith("__") and name.endswith("__"):
            return False
        return kind not in _METHODS and not any("__get__" in vars(base) for base in kind.__mro__)


class Function(Kind):
    """A function of the user's: its closure, its defaults, its attributes; the walk adds the globals that it names."""

    tag = "function"

    def parts(self, thing: Any) -> Iterator[Part]:
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            yield f" with {name}", cell
        yield from ((f" default {n}", each) for n, each in enumerate(thing.__defaults__ or ()))
        yield from ((f" default {n}", each) for n, each in (thing.__kwdefaults__ or {}).items())
        yield from ((f".{name}", value) for name, value in list(vars(thing).items()))

    def content(self, thing: Any, encode: Encode) -> Value:
        defaults, attributes = thing.__defaults__, dict(vars(thing))
        return (
            tuple(map(encode, defaults or ())),
            *(each for name, value in attributes.items() for each in (name, encode(value))),
        )

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if thing.__defaults__:
            thing.__defaults__ = tuple(map(decode, content[0]))
        vars(thing).update(_decoded(_pairs(content[1:]), decode))


class Cell(Kind):
    """A variable of a closure."""

    tag = "cell"

    def parts(self, thing: Any) -> Iterator[Part]:
        try:
            yield "", thing.cell_contents
        except ValueError:
            pass  # not assigned yet

    def content(self, thing: Any, encode: Encode) -> Value:
        try:
            return ("cell", encode(thing.cell_contents))
        except ValueError:
            return ("empty",)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        for _, value in _decoded([content] if content[0] == "cell" else [], decode):
            thing.cell_contents = value


class Method(Kind):
    """A method that is bound to an object, or a `partial`."""

    tag = "method"

    def parts(self, thing: Any) -> Iterator[Part]:
        if type(thing) is MethodType:
            yield from ((".__self__", thing.__self__), ("", thing.__func__))
        else:
            yield "", thing.func
            yield from ((f" argument {n}", each) for n, each in enumerate(thing.args))
            yield from ((f" argument {n}", each) for n, each in thing.keywords.items())


class Globals(Kind):
    """Of a module of the user's, those globals that functions reached by the walk refer to."""

    tag = "globals"

    def content(self, thing: Any, encode: Encode) -> Value:
        found = [(name, thing.module[name]) for name in sorted(thing.names) if name in thing.module]
        return tuple(each for name, value in found for each in (name, encode(value)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        for name, value in _decoded(_pairs(content), decode):
            thing.module[name] = value


class GlobalNames(SimpleNamespace):
    """A module's dict, and the names in it that matter."""

    module: dict[str, Any]
    names: set[str]


_METHODS = (FunctionType, staticmethod, classmethod, property)
_MAKERS: dict[str, Callable[..., Any]] = {
    "iter": iter,
    "reversed": reversed,
    **{kind.__name__: kind for kind in (itertools.count, itertools.cycle, itertools.repeat, itertools.islice)},
    **{kind.__name__: kind for kind in (itertools.chain, enumerate, zip)},
}


def _pairs(flat: Value) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _decoded(pairs: Iterable[tuple[Any, Any]], decode: Decode) -> Iterator[tuple[Any, Any]]:
    """Names and their values, but for what is outside: what the new process has in its place is right there."""
    for name, value in pairs:
        try:
            yield name, decode(value)
        except OutsideError:
            continue


def _all_plain(items: Any) -> bool:
    return PLAIN.issuperset(map(type, items))


def dict_of(thing: Any) -> dict[str, Any]:
    """The attributes of an object, whatever its class makes of looking at it."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if type(found) is dict else {}


@functools.lru_cache(maxsize=4096)
def _slots_of(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        if not code.is_of_library(base) and base.__module__ != "builtins":
            found += [slots] if type(slots) is str else [name for name in slots if type(name) is str]
    return [name for name in found if name not in ("__dict__", "__weakref__")]


_DATA_OF_LIBRARIES = ("typing", "abc", "types", "optuna.", "keras_tuner.")
"""Modules of libraries whose plain classes hold what tuners know of their trials. Others may do more than hold data."""


def is_data(kind: type) -> bool:
    """Whether an object of this class is nothing but its attributes."""
    bases = [base for base in kind.__mro__ if base is not object]
    made_by: Any = kind.__new__
    return made_by is object.__new__ and all(
        code.is_users(base.__module__) or base.__module__.startswith(_DATA_OF_LIBRARIES) for base in bases
    )


def _bit_generator(thing: Any) -> Any:
    return thing.bit_generator if isinstance(thing, np.random.Generator) else thing


def _frozen(state: Any) -> Value:
    """The state of a NumPy generator as a value."""
    if isinstance(state, dict):
        return ("dict", *(each for key, value in state.items() for each in (key, _frozen(value))))
    if isinstance(state, np.ndarray):
        return _array_as_value(state)
    return state.item() if isinstance(state, np.generic) else state


def _thawed(value: Value) -> Any:
    if type(value) is not tuple:
        return value
    if value[0] == "dict":
        return {key: _thawed(each) for key, each in _pairs(value[1:])}
    return _value_as_array(value)


def _array_as_value(array: Any) -> Value:
    if array.dtype.kind == "O":
        return ("objects", tuple(array.shape), *array.reshape(-1).tolist())
    return ("numbers", values.text_of(array.dtype), tuple(array.shape), array.tobytes())


def _value_as_array(value: Value) -> Any:
    if value[0] == "objects":
        made = np.empty(value[1], dtype=object)
        made.reshape(-1)[:] = value[2:]
        return made
    return np.frombuffer(value[3], values.dtype_of(value[1])).reshape(value[2]).copy()


def _tensorflow_variable(thing: Any) -> Any:
    return thing if isinstance(thing, tf.Variable) else thing.value


def _reduced(thing: Any) -> tuple[Any, ...]:
    """How Python would make the iterator again: the name of what makes it, its arguments, and a state."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # gone from itertools in Python 3.14
        made_by, arguments, *state = thing.__reduce__()
    if made_by.__name__ not in _MAKERS:
        raise CannotEncodeError(type(thing).__name__)
    return made_by.__name__, arguments, *state
