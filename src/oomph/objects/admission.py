"""Limits checkpoints to replacing data: they never choose what is called.

The script calls objects that it finds in its own attributes. A function, a class, a module or anything else that can be
called therefore stays where this process has put it. A foreign checkpoint may come from anyone, so it cannot introduce
new text either, which the script might open or run (`oomph.checkpoint.origin`).

A checkpoint refers to a type by its module and name. That name is never looked up: the type must be one of the data
classes that the script's own modules define, or the type of an object that the script holds.
"""

from __future__ import annotations

import abc
import builtins
import collections
import enum
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from oomph.keras_bridge import code
from oomph.objects.kind import NOTHING, CannotGiveBackError
from oomph.objects.texts import Among, holds_all
from oomph.objects.values import HARMLESS_IDS, HARMLESS_TYPES
from oomph.script.restorable import is_from_elsewhere

_CODE = (
    *(type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, functools.partial, functools.partialmethod),
    *(MethodWrapperType, WrapperDescriptorType, MethodDescriptorType, ClassMethodDescriptorType),
    *(GetSetDescriptorType, MemberDescriptorType, CodeType, FrameType, staticmethod, classmethod, property),
)
_FILLING = frozenset(
    id(kind) for kind in HARMLESS_TYPES if issubclass(kind, (Sized, np.void)) and kind not in (str, np.str_)
)
"""The `id`s of types that may exhaust memory if an iterator calls them, for example with a huge number."""
_IN_A_HASH = frozenset(("hash", "tuple", "frozenset", "sorted", "id", "type", "str", "repr", "int", "float", "round"))


class RefusedError(CannotGiveBackError):
    """Raised if a checkpoint sets something that it must not choose; the message says what."""


def admitted(new: Any, old: Any = NOTHING) -> Any:
    """Return `new` if a checkpoint may put it in place of `old`. Raises RefusedError otherwise.

    Args:
        old: the current value; a tuple represents all of its items.
    """
    if old is not NOTHING and new is not old and is_called(old):
        raise RefusedError(f"a replacement for a {type(old).__name__}, which is callable")
    for part in _flat(new):
        if is_called(part) and not any(part is known for known in _flat(old)):
            raise RefusedError(f"a {type(part).__name__}, which is callable: a checkpoint must not choose it")
    if is_from_elsewhere():
        _refuse_of_elsewhere(new, old)
    return new


def _refuse_of_elsewhere(new: Any, old: Any) -> None:
    """Reject any text that this process does not already have there, and functions in a different order."""
    if not holds_all(old, new):
        raise RefusedError("text from a checkpoint that was not written here")
    own = {type(part) for part in _flat(new) if code.is_users(type(part).__module__)}
    if own and not own <= set(map(type, _flat(old))):
        raise RefusedError("an object of a different class, from a checkpoint that was not written here")
    if type(old) is Among and any(map(is_called, _flat(new))):
        raise RefusedError("a function in a container, from a checkpoint that was not written here")


def may_lose(things: Iterable[Any]) -> bool:
    """True if a checkpoint may remove these items from an object. A foreign one must not remove callable items."""
    return not (is_from_elsewhere() and any(map(is_called, things)))


def admitted_to_iterator(new: Any, old: tuple[Any, ...]) -> Any:
    """Return `new` if a checkpoint may pass it to an iterator, which may call it. Raises RefusedError otherwise.

    Args:
        old: the objects that the iterator holds now.
    """
    if id(new) in _FILLING and not any(new is known for known in old):
        raise RefusedError(f"an iterator that calls {new.__name__}")
    return admitted(new, old)


def is_called(thing: Any) -> bool:
    """True if an object can be called or leads to a call: a function, class, module, or object with `__call__`.

    Keras' layers, losses and similar objects have state of their own, and count as data.
    """
    kind: Any = type(thing)
    if issubclass(kind, type):
        return id(thing) not in HARMLESS_IDS
    if issubclass(kind, _CODE):
        return True
    return _has_call(kind) and not code.is_holder(kind)


@functools.lru_cache(maxsize=4096)
def _has_call(kind: type) -> bool:
    return any("__call__" in vars(base) for base in kind.__mro__)


def may_be_hashed(key: Any) -> bool:
    """True unless hashing the key runs the script's own functions, which would then receive data from a checkpoint."""
    if issubclass(type(key), (tuple, frozenset)):
        return all(map(may_be_hashed, _items(key)))
    computed = getattr(type(key), "__hash__", None)
    if type(computed) is not FunctionType or not code.is_users(computed.__module__):
        return computed is not None
    return code.names_in(computed.__code__).globals <= _IN_A_HASH


def may_be_set(kind: type, name: Any, held: Mapping[str, Any]) -> bool:
    """True if a checkpoint may set an attribute with this name.

    Args:
        held: the attributes that the object has now.
    """
    if not is_plain_name(name) or name in code.set_by_libraries(kind):
        return False
    return name in held or hides_nothing(kind, name)


def hides_nothing(kind: type, name: str) -> bool:
    """True unless the class has a method with this name."""
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if isinstance(member, (functools.cached_property, MemberDescriptorType)):
        return True
    return not is_called(member) and not any("__get__" in vars(base) for base in type(member).__mro__)


def is_plain_name(name: Any) -> bool:
    """True if an attribute name has no special meaning in Python."""
    return type(name) is str and not (name.startswith("__") and name.endswith("__"))


def may_be_global(name: Any, module: Mapping[str, Any], names: set[str]) -> bool:
    """True if a checkpoint may assign this global: an existing variable of the script, or a name in its code.

    Args:
        names: the globals that the code refers to.
    """
    if not is_plain_name(name):
        return False
    return not is_called(module[name]) if name in module else name in names and not hasattr(builtins, name)


def _flat(thing: Any) -> Iterator[Any]:
    """Yield the object itself or, if it is a tuple or frozenset, its items, including nested ones."""
    if issubclass(type(thing), (tuple, frozenset)):
        for each in _items(thing):
            yield from _flat(each)
    elif thing is not NOTHING:
        yield thing


def _items(thing: Any) -> Iterator[Any]:
    return frozenset.__iter__(thing) if issubclass(type(thing), frozenset) else tuple.__iter__(thing)


_DATA_OF_LIBRARIES = ("optuna.", "keras_tuner.")
"""Modules whose plain classes hold a tuner's trials; the classes of other libraries may do more."""
_BASES = (*_DATA_OF_LIBRARIES, "typing", "abc", "types")
_CONTAINERS = (dict, list, set, collections.deque)
_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
"""The metaclasses that run none of the script's code; any other metaclass may do so on every access."""
_RUNS_BY_ITSELF = ("__del__", "__call__", "__get__", "__set__", "__delete__", "__set_name__")
"""Methods that run without being named, for example when their object is called or discarded."""


class OwnTypes:
    """Looks up types by their paths, such as "__main__:Entry".

    Args:
        met: the types of the objects that the script holds.
    """

    def __init__(self, met: Iterable[type]) -> None:
        self._met = met
        self._known: dict[str, type] | None = None

    def __call__(self, path: str) -> Any:
        """Return the type with this path. Raises CannotGiveBackError if it is not listed."""
        if self._known is None:
            self._known = {path_of(kind): kind for kind in (*_defined(), *self._met) if is_made_as_data(kind)}
        found = self._known.get(path) if type(path) is str else None
        if found is None:
            raise CannotGiveBackError(f"{str(path)[:100]}, which is not one of the script's data types")
        return found


def path_of(kind: type) -> str:
    """Return the path of a type."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_made_as_data(kind: type) -> bool:
    """True if creating and discarding an object of this class runs no Python code."""
    if type(kind) not in _METACLASSES:
        return False
    if issubclass(kind, enum.Enum):
        return True
    if any(name in vars(base) for base in kind.__mro__ for name in _RUNS_BY_ITSELF):
        return False
    made_by: Any = kind.__new__
    if issubclass(kind, tuple):
        return type(kind) is type
    return is_data(kind) or any(made_by is base.__new__ for base in _CONTAINERS if issubclass(kind, base))


def is_data(kind: type) -> bool:
    """True if objects of this class consist only of their attributes."""
    bases = [base for base in kind.__mro__ if base is not object]
    made_by: Any = kind.__new__
    if any("__del__" in vars(base) or "__call__" in vars(base) for base in bases):
        return False
    return made_by is object.__new__ and all(
        code.is_users(base.__module__) or base.__module__.startswith(_BASES) for base in bases
    )


def _defined() -> Iterator[type]:
    """Yield the classes that the script's own modules define, and the library classes that store a tuner's trials."""
    for name, module in list(sys.modules.items()):
        if type(module) is ModuleType and (code.is_users(name) or name.startswith(_DATA_OF_LIBRARIES)):
            yield from _classes_in(vars(module), name)


def _classes_in(names: Any, module: str) -> Iterator[type]:
    for thing in list(names.values()):
        if type(thing) in _METACLASSES and thing.__module__ == module:
            yield thing
            yield from _nested_in(thing)


@functools.lru_cache(maxsize=4096)
def _nested_in(kind: type) -> tuple[type, ...]:
    return tuple(_classes_in(vars(kind), kind.__module__))
