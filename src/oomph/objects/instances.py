"""Objects with attributes, classes, and the contents of functions: their globals, cells and bound objects."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import stat
from collections.abc import Iterator
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

from oomph.keras_bridge import code
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.objects.admission import (
    hides_nothing,
    is_called,
    is_data,
    is_plain_name,
    may_be_global,
    may_be_set,
    may_lose,
    path_of,
)
from oomph.objects.kind import (
    CannotGiveBackError,
    Decode,
    Encode,
    Figure,
    Kind,
    Part,
    Setting,
    TypeNamed,
    pairs,
    put_each,
)
from oomph.objects.values import Value

WRAPPERS: tuple[type, ...] = (FunctionType, type(functools.lru_cache(len)))
"""The types of functions that may wrap another function."""
_MOST_WRAPPERS = 8
_METHODS = (FunctionType, staticmethod, classmethod, property)


class Instance(Kind):
    """An object with attributes, stored in its `__dict__` and its slots."""

    tag = "instance"
    named_from = 1

    def parts(self, thing: Any) -> Iterator[Part]:
        yield from ((f".{name}", value) for name, value in self.attributes(thing).items())

    def attributes(self, thing: Any) -> dict[str, Any]:
        """Return the attributes that the user's code set on the object, by name."""
        kind: Any = type(thing)
        theirs, held = code.set_by_libraries(kind), dict_of(thing)
        all_theirs = held.keys() <= theirs  # true for most layers, and evaluated at every checkpoint
        found = {} if all_theirs else {name: value for name, value in held.items() if name not in theirs}
        for slot in _slots_of(kind):
            try:
                found[slot] = object.__getattribute__(thing, slot)
            except AttributeError:
                pass  # not set
        return found

    def content(self, thing: Any, encode: Encode) -> Value:
        found = self.attributes(thing)
        kind: Any = type(thing)
        return (path_of(kind), *(e for n, v in found.items() for e in (n, encode(v))))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        wanted, now = dict(pairs(content[1:])), self.attributes(thing)
        kind: Any = type(thing)
        strange = [name for name in wanted if not may_be_set(kind, name, now)]
        if strange:
            raise CannotGiveBackError(f"{str(strange[0])[:60]} is not one of the script's attributes")

        def put(name: str, value: Any) -> None:
            if not (type(value) is int and value != now.get(name) and is_open_for_writing(now.get(name))):
                self._set(thing, name, value)

        gone = [name for name in now if name not in wanted]
        if any(is_called(now[name]) and not hides_nothing(kind, name) for name in gone):
            raise CannotGiveBackError(
                "a function is missing from it, so the method of its class would be called instead"
            )
        if not may_lose(now[name] for name in gone):
            raise CannotGiveBackError("a function is missing from it in a checkpoint that was not written here")
        for name in gone:
            self._remove(thing, name)
        put_each(wanted.items(), decode, now, put)

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        kind = type_named(content[0])
        if not is_data(kind):
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


class Attributed(Kind):
    """An instance of a user's class that inherits from a container: its items and its attributes."""

    def __init__(self, inner: Kind) -> None:
        self._inner, self._outer = inner, Instance()
        self.tag = f"{inner.tag} with attributes"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield from self._inner.parts(thing)
        yield from self._outer.parts(thing)

    def content(self, thing: Any, encode: Encode) -> Value:
        return (self._inner.content(thing, encode), self._outer.content(thing, encode))

    def figures(self, content: Value) -> Iterator[Figure]:
        yield from self._inner.figures(content[0])
        yield from self._outer.figures(content[1])

    def since(self, before: Value, now: Value) -> Value:
        return (self._inner.since(before[0], now[0]), self._outer.since(before[1], now[1]))

    def with_settings(self, content: Value, at_begin: Value) -> tuple[Value, list[Setting]]:
        inner, of_inner = self._inner.with_settings(content[0], at_begin[0])
        outer, of_outer = self._outer.with_settings(content[1], at_begin[1])
        return (inner, outer), [*of_inner, *of_outer]

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        kind = type_named(content[1][0])
        empty = self._inner.shell(content[0], type_named)
        base: Any = type(empty)
        if not (issubclass(kind, base) and kind.__new__ is base.__new__):
            raise CannotGiveBackError(str(content[1][0]))
        return base.__new__(kind)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        inner, outer = content
        self._inner.give_back(thing, inner, decode)
        self._outer.give_back(thing, outer, decode)


class Class(Kind):
    """A user's class: its attributes, and the objects that its methods refer to."""

    tag = "class"
    named_from = 0

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
        state = {name: member for name, member in list(vars(thing).items()) if self._is_state(name, member)}

        def put(name: str, value: Any) -> None:
            if not (self._is_state(name, value) and (name in state or hides_nothing(thing, name))):
                raise CannotGiveBackError("not one of the script's attributes")
            type.__setattr__(thing, name, value)

        put_each(pairs(content), decode, state, put)

    def _is_state(self, name: str, member: Any) -> bool:
        kind = type(member)
        if name.startswith("__") and name.endswith("__"):
            return False
        return kind not in _METHODS and not any("__get__" in vars(base) for base in kind.__mro__)


class Function(Kind):
    """A user's function: its closure, defaults and attributes. The walk adds the globals that it refers to."""

    tag = "function"

    def parts(self, thing: Any) -> Iterator[Part]:
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            yield f" with {name}", cell
        yield from ((f" default {n}", each) for n, each in enumerate(thing.__defaults__ or ()))
        yield from ((f" default {n}", each) for n, each in (thing.__kwdefaults__ or {}).items())
        yield from ((f".{name}", value) for name, value in _attributes_of(thing))

    def content(self, thing: Any, encode: Encode) -> Value:
        return (
            tuple(map(encode, thing.__defaults__ or ())),
            *(each for name, value in _attributes_of(thing) for each in (name, encode(value))),
        )

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        before = thing.__defaults__ or ()
        if len(before) != len(content[0]):
            raise CannotGiveBackError("a function with different defaults")
        if before:
            thing.__defaults__ = tuple(decode(each, old) for each, old in zip(content[0], before, strict=True))
        wanted = [(name, value) for name, value in pairs(content[1:]) if is_plain_name(name)]
        put_each(wanted, decode, vars(thing), vars(thing).__setitem__)


def _attributes_of(function: FunctionType) -> list[tuple[str, Any]]:
    """Return the attributes of a user's function, except for the one that TensorFlow recreates in each trace."""
    return [(name, value) for name, value in vars(function).items() if name not in TENSORFLOW.wrapper_in_graph.names]


class Wrapper(Kind):
    """A user's function wrapped by a library's decorator, such as `contextlib.contextmanager`."""

    tag = "wrapper"

    def parts(self, thing: Any) -> Iterator[Part]:
        yield "", wrapped_by(thing)


def wrapped_by(thing: Any) -> FunctionType | None:
    """Return the user's function that a library's decorator has wrapped, or None if there is none."""
    for _ in range(_MOST_WRAPPERS):
        if type(thing) not in WRAPPERS:  # accessing an attribute of a user's object may run code
            return None
        thing = vars(thing).get("__wrapped__")
        if type(thing) is FunctionType and code.is_users(thing.__globals__.get("__name__", "")):
            return thing
    return None


class Cell(Kind):
    """A closure variable."""

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
        now = {}
        with contextlib.suppress(ValueError):  # not assigned yet
            now["cell"] = thing.cell_contents
        wanted = [("cell", content[1])] if content[0] == "cell" else []
        put_each(wanted, decode, now, lambda _, value: setattr(thing, "cell_contents", value))


class Method(Kind):
    """A bound method or a `partial`."""

    tag = "method"

    def parts(self, thing: Any) -> Iterator[Part]:
        if type(thing) is MethodType:
            yield from ((".__self__", thing.__self__), ("", thing.__func__))
        else:
            yield "", thing.func
            yield from ((f" argument {n}", each) for n, each in enumerate(thing.args))
            yield from ((f" argument {n}", each) for n, each in thing.keywords.items())


class Globals(Kind):
    """The globals of a user's module that functions reached by the walk refer to."""

    tag = "globals"
    named_from = 0

    def at(self, name: str) -> str:
        return name

    def content(self, thing: Any, encode: Encode) -> Value:
        found = [(name, thing.module[name]) for name in sorted(thing.names) if name in thing.module]
        return tuple(each for name, value in found for each in (name, encode(value)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        strange = [name for name, _ in pairs(content) if not may_be_global(name, thing.module, thing.names)]

        def put(name: str, value: Any) -> None:
            if name not in strange:
                thing.module[name] = value
            elif value is not thing.module.get(name):
                raise CannotGiveBackError("not one of the script's variables")

        put_each(pairs(content), decode, thing.module, put)


class GlobalNames(SimpleNamespace):
    """A module's dict, and the names in it that matter."""

    module: dict[str, Any]
    names: set[str]


def dict_of(thing: Any) -> dict[str, Any]:
    """Return an object's attributes, bypassing any attribute access that its class defines."""
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
            names = [slots] if type(slots) is str else [name for name in slots if type(name) is str]
            found += [_mangled(name, base) for name in names if name not in ("__dict__", "__weakref__")]
    return found


def _mangled(name: str, kind: type) -> str:
    """Return the name that Python gives a private attribute of a class."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name


# -- descriptors ------------------------------------------------------------------------------------------------------


def is_open_for_writing(value: Any) -> bool:
    """True if the value is a file descriptor above 2 for a regular file that this process has open for writing.

    A script that keeps such a descriptor reopens the file in each attempt and may get a different number.
    """
    if type(value) is not int or not 2 < value < 1 << 20:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(value).st_mode)
        return is_file and fcntl.fcntl(value, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False
