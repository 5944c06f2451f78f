"""A row in a table of private names: where Keras or TensorFlow defines a name, and why oomph needs it."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any


class Feature(enum.Flag):
    """A feature that stops working if a name is missing. Everything else keeps working."""

    GUARD = enum.auto()
    EXACT_STEP = enum.auto()
    RESUME = enum.auto()
    OBJECTS = enum.auto()
    EVENT_FILES = enum.auto()
    SEEDS = enum.auto()
    ERRORS_OUTSIDE = enum.auto()
    CUSTOM_LOOPS = enum.auto()
    TRACING = enum.auto()
    MEMORY_LIMIT = enum.auto()
    NO_XLA = enum.auto()
    PRECISION = enum.auto()
    TRACEBACKS = enum.auto()
    INPUT_WAIT = enum.auto()
    ALL_REDUCE_TIME = enum.auto()
    LOSS = enum.auto()
    PLANNING = enum.auto()
    CHECKING = enum.auto()
    SEVERAL_WORKERS = enum.auto()
    VERSION = enum.auto()

    @property
    def meaning(self) -> str:
        """A description of the feature, phrased to fit "... is switched off"."""
        return " and ".join(text for feature, text in _MEANING.items() if feature & self)


_MEANING = {
    Feature.GUARD: "the guard",
    Feature.EXACT_STEP: "splitting a batch into micro-batches",
    Feature.RESUME: "resuming from checkpoints",
    Feature.OBJECTS: "restoring all of the script's own objects",
    Feature.EVENT_FILES: "continuing TensorBoard's event files",
    Feature.SEEDS: "reproducing the random numbers of a script without a seed",
    Feature.ERRORS_OUTSIDE: "identifying out-of-memory errors outside guarded steps",
    Feature.CUSTOM_LOOPS: "watching custom training loops",
    Feature.TRACING: "distinguishing tracing from a hang",
    Feature.MEMORY_LIMIT: "reading the device's memory limit",
    Feature.NO_XLA: "switching XLA off",
    Feature.PRECISION: "changing the precision",
    Feature.TRACEBACKS: "hiding oomph's frames in tracebacks",
    Feature.INPUT_WAIT: "measuring the wait for input",
    Feature.ALL_REDUCE_TIME: "measuring how long workers wait for one another",
    Feature.LOSS: "watching the loss between two readings",
    Feature.PLANNING: "planning the memory of functions within a step",
    Feature.CHECKING: "checking some of a model's losses, metrics and layers",
    Feature.SEVERAL_WORKERS: "training several workers",
    Feature.VERSION: "recording Keras' version in the journal",
}


@dataclass(frozen=True)
class Row:
    """A name that a module defines, or that its code mentions.

    Attributes:
        module: the module that defines the name.
        name: the spelling of the name in that module.
        feature: the feature that is switched off without the name.
        beside: another name; the row is needed only if the module's code contains that one as well.
        also: the spellings in other versions.
    """

    module: str
    name: str
    feature: Feature
    beside: str = ""
    also: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The spellings of the name in this and other versions."""
        return self.name, *self.also

    def name_on(self, owner: Any) -> str:
        """Return the first spelling that an object, class or module has, or the installed spelling if it has none."""
        if not self.also:
            return self.name  # the usual case, which costs nothing
        return next((name for name in self.names if hasattr(owner, name)), self._installed)

    @property
    def _installed(self) -> str:
        """The first spelling that the code of the installed module mentions."""
        known = _names_in(self.module)
        return next((name for name in self.names if name in known), self.name)

    def exists(self) -> bool:
        """True if the installed version has the name. Does not run the module."""
        if any(_is_alive(self.module, name) for name in self.names):
            return True
        found = _names_in(self.module)
        return any(name in found for name in self.names) or bool(self.beside and found and self.beside not in found)

    @property
    def path(self) -> str:
        """The module and the name, like a class's `__module__` and `__qualname__`."""
        known = vars(sys.modules.get(self.module, object))
        return f"{self.module}.{next((name for name in self.names if name in known), self.name)}"

    @property
    def library(self) -> str:
        """The library that defines the name: "Keras" or "TensorFlow"."""
        return "Keras" if self.module.startswith(("keras.", "tf_keras.")) else "TensorFlow"

    def __str__(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.name}"


@dataclass(frozen=True)
class Global(Row):
    """A function, class, constant or module within `module`."""

    @property
    def place(self) -> tuple[Any, str]:
        """The module that defines the name, and its spelling there. Imports the module."""
        owner = importlib.import_module(self.module)
        return owner, self.name_on(owner)

    def value(self) -> Any:
        """Return the object that the name refers to. Raises ImportError if it does not exist."""
        owner, name = self.place
        return getattr(owner, name) if hasattr(owner, name) else importlib.import_module(self.path)

    def exists(self) -> bool:
        """True if the installed version has the object."""
        return super().exists() or _is_module(self.path)


@dataclass(frozen=True)
class Attribute(Row):
    """An attribute of the instances of a class in `module`."""

    def of(self, thing: Any) -> Any:
        """Return the attribute's value on an object. Raises AttributeError if the object has no such attribute."""
        return getattr(thing, self.name_on(thing))

    def get(self, thing: Any, default: Any = None) -> Any:
        """Return the attribute's value on an object, or `default`."""
        return getattr(thing, self.name_on(thing), default)

    def on(self, thing: Any) -> bool:
        """True if an object has the attribute."""
        return hasattr(thing, self.name_on(thing))

    def call(self, thing: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the method on an object and return its result."""
        return getattr(thing, self.name_on(thing))(*args, **kwargs)

    def put(self, thing: Any, value: Any) -> None:
        """Set the attribute on an object."""
        setattr(thing, self.name_on(thing), value)


def rows_of(table: Any) -> list[Row]:
    """Return the rows of a table, which is a class or an object, in order."""
    classes = reversed(table.__mro__) if isinstance(table, type) else [table]
    found = [row for each in classes for row in vars(each).values()]
    return [row for each in found for row in (each if isinstance(each, tuple) else (each,)) if isinstance(row, Row)]


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # the part before the last dot is not a package
        return False


def _is_alive(module: str, name: str) -> bool:
    """True if an imported module or one of its classes, including classes written in C, has the name."""
    known = vars(sys.modules[module]) if module in sys.modules else {}
    return name in known or any(isinstance(thing, type) and hasattr(thing, name) for thing in list(known.values()))


@cache
def _names_in(module: str) -> frozenset[str]:
    """Return every name that a module's code mentions, or an empty set if the module does not exist.

    Most attributes exist only once a model is trained, so inspecting classes is not enough. The code is not run: Keras
    is still being imported when this is called.
    """
    try:
        spec = importlib.util.find_spec(module)
        loader: Any = None if spec is None else spec.loader
        code = None if loader is None else loader.get_code(module)
    except (ImportError, AttributeError, ValueError):
        code = None
    if code is None:
        return frozenset(vars(sys.modules[module])) if module in sys.modules else frozenset()
    return frozenset(name for each in _codes(code) for name in _spoken_of(each))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _spoken_of(code: CodeType) -> Iterator[str]:
    yield from (code.co_name, *code.co_names, *code.co_varnames)
    yield from (constant for constant in code.co_consts if isinstance(constant, str))
