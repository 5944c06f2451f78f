"""Facts about code: who owns it, which names it uses, and which attributes it sets."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from oomph.files import user_code

_LIBRARIES = ("keras.", "tensorflow.")


@functools.lru_cache(maxsize=4096)
def is_users(module: str) -> bool:
    """True if a module belongs to the user: the script or a file next to it, not an installed library."""
    if module == "__main__":
        return True
    path = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(path, str) and user_code.is_users(path)


def is_of_library(thing: Any) -> bool:
    """True if a class or function belongs to Keras or TensorFlow."""
    return str(thing.__module__).startswith(_LIBRARIES)


_HOLDERS = frozenset(
    {
        *("Layer", "Optimizer", "BaseOptimizer", "Metric", "Loss", "Callback", "SeedGenerator"),
        *("LearningRateSchedule", "PyDataset", "Module", "Constraint", "Regularizer", "Initializer", "Operation"),
    }
)
"""Classes in Keras and TensorFlow that users subclass."""


@functools.lru_cache(maxsize=4096)
def is_holder(kind: type) -> bool:
    """True if this is a stateful Keras or TensorFlow class, such as a layer, or a subclass of one."""
    return any(is_of_library(base) and base.__name__ in _HOLDERS for base in kind.__mro__)


class Names(NamedTuple):
    """The names that a piece of code refers to."""

    globals: frozenset[str]
    attributes: frozenset[str]
    """Attributes of objects and modules, including the names that the code imports from modules."""
    modules: frozenset[str]
    """Modules that the code imports, spelled as in the code."""


_TAKES_GLOBALS_BY_TEXT = "globals"


@functools.lru_cache(maxsize=4096)
def names_in(code: CodeType) -> Names:
    """Return the globals, attributes and modules that a piece of code names, including nested code."""
    used: dict[str, set[str]] = {"GLOBAL": set(), "NAME": set(), "ATTR": set(), "METHOD": set(), "FROM": set()}
    modules = set()
    for step in dis.get_instructions(code):
        _, _, what = step.opname.rpartition("_")
        if step.opname == "IMPORT_NAME":
            modules.add(step.argval)
        elif what in used and isinstance(step.argval, str):
            used[what].add(step.argval)
    named = used["GLOBAL"] | used["NAME"]
    if _TAKES_GLOBALS_BY_TEXT in named:
        named |= {each for each in code.co_consts if type(each) is str and each.isidentifier()}
    found = Names(frozenset(named), frozenset(used["ATTR"] | used["METHOD"] | used["FROM"]), frozenset(modules))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = Names(*(mine | inner for mine, inner in zip(found, names_in(constant), strict=True)))
    return found


@functools.lru_cache(maxsize=1024)
def set_by_libraries(kind: type) -> frozenset[str]:
    """Return the attributes that methods inherited from Keras or TensorFlow set, which are not the user's own."""
    found: set[str] = set()
    for base in kind.__mro__:
        if is_of_library(base):
            for member in vars(base).values():
                for function in functions_in(member):
                    found |= _stored(function.__code__)
    return frozenset(found)


def functions_in(member: Any) -> Iterator[FunctionType]:
    """Yield the Python functions in a class member: a method, a static or class method, or a property."""
    if type(member) is property:
        candidates = [member.fget, member.fset, member.fdel]
    else:
        candidates = [member.__func__ if type(member) in (staticmethod, classmethod) else member]
    for candidate in candidates:
        seen = 0
        while type(candidate) is FunctionType and seen < 8:
            yield candidate
            candidate, seen = vars(candidate).get("__wrapped__"), seen + 1


@functools.lru_cache(maxsize=8192)
def _stored(code: CodeType) -> frozenset[str]:
    found = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _stored(constant)
    return frozenset(found)
