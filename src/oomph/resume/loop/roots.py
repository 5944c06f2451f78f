"""Roots: the objects that a script passes as the state of its loop, checked and given readable names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.resume.objects import values
from oomph.resume.objects.instances import dict_of
from oomph.resume.objects.kind import Kind
from oomph.resume.objects.table import OPAQUE, kind_of

_PAIRS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
_LIBRARIES = ("keras", "tensorflow", "numpy")
"""Libraries whose own `get_state` and similar methods mean something else."""


@dataclass(frozen=True)
class Root:
    """One object of a loop's state."""

    name: str
    """The name as in the call: "state[1]", or "state['model']"."""
    thing: Any
    pair: tuple[str, str] | None = None
    """The names of the methods that get and set its state; None if its parts are inspected instead."""

    @property
    def kind(self) -> str:
        """The name of its class, for messages."""
        return type(self.thing).__name__

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def roots_of(state: Any) -> list[Root]:
    """The roots of the given state; raises TypeError for what cannot be saved and restored."""
    if isinstance(state, tf.train.Checkpoint):
        named = [(f"state.{name}", thing) for name, thing in sorted(dict_of(state).items()) if not name.startswith("_")]
        return [_root(name, thing) for name, thing in named if isinstance(thing, tf.__internal__.tracking.Trackable)]
    if type(state) is dict and not _holds_plain_values(state):
        return [_root(f"state[{name!r}]", thing) for name, thing in state.items()]
    if isinstance(state, (list, tuple)):
        return [_root(f"state[{number}]", thing) for number, thing in enumerate(state)]
    return [_root("state", state)]


def _holds_plain_values(state: dict[Any, Any]) -> bool:
    """True if a dict is state itself, not just names for objects: it holds values that change by assignment."""
    return any(values.is_value(thing) for thing in state.values())


def _root(name: str, thing: Any) -> Root:
    root = Root(name, thing, _pair_of(type(thing)))
    if root.pair is not None or type(thing) in (tuple, list):
        return root
    if values.is_value(thing) or isinstance(thing, tf.Tensor):
        raise TypeError(f"{root} never changes itself: keep what the loop reassigns in a dict or an object")
    kind = kind_of(thing)
    if kind is OPAQUE or not _can_be_given_back(kind):
        raise TypeError(
            f"{root} cannot be saved and restored: pass the object that holds its state, or give its class get_state()"
            " and set_state(state)"
        )
    return root


def _pair_of(kind: type) -> tuple[str, str] | None:
    if kind.__module__.partition(".")[0] in _LIBRARIES:
        return None
    return next((pair for pair in _PAIRS if all(callable(getattr(kind, name, None)) for name in pair)), None)


def _can_be_given_back(kind: Kind) -> bool:
    return kind.in_place and (type(kind).give_back is not Kind.give_back or bool(type(kind).parts is not Kind.parts))
