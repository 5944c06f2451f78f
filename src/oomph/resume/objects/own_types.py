"""The types that restoration may make new objects of: a closed list, found by looking at what this process has.

A checkpoint names a type by its module and name. Nothing is looked up under that name: it has to be one of the classes
of data that the script's own modules define, or the type of an object that the script holds.
"""

from __future__ import annotations

import abc
import collections
import enum
import functools
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from oomph.keras_bridge import code
from oomph.resume.objects.kind import CannotGiveBackError

_DATA_OF_LIBRARIES = ("optuna.", "keras_tuner.")
"""Modules whose plain classes hold a tuner's trials; those of other libraries may do more."""
_BASES = (*_DATA_OF_LIBRARIES, "typing", "abc", "types")
_CONTAINERS = (dict, list, set, collections.deque)
_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
"""The metaclasses that run no code of the script; any other may do so on every access."""
_RUNS_BY_ITSELF = ("__del__", "__call__", "__get__", "__set__", "__delete__", "__set_name__")
"""The methods of an object that run without being named, such as when it is called or discarded."""


class OwnTypes:
    """The types by their paths, such as "__main__:Entry".

    Args:
        met: the types of what the script holds.
    """

    def __init__(self, met: Iterable[type]) -> None:
        self._met = met
        self._known: dict[str, type] | None = None

    def __call__(self, path: str) -> Any:
        """The type at this path; raises CannotGiveBackError if it is not listed."""
        if self._known is None:
            self._known = {path_of(kind): kind for kind in (*_defined(), *self._met) if is_made_as_data(kind)}
        found = self._known.get(path) if type(path) is str else None
        if found is None:
            raise CannotGiveBackError(f"{str(path)[:100]}, which is none of the script's types of data")
        return found


def path_of(kind: type) -> str:
    """The path of a type."""
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
    """The classes that the script's own modules define, and those of libraries that hold data of trials."""
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
