"""The parts of an element of data: x, y and sample weights in any structure, by names as the user would write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

_ROLES = ("x", "y", "sample_weight")


class Leaf(NamedTuple):
    """One part of an element."""

    role: str
    name: str
    """The name as the user would write it: "x['age']"."""
    key: str = ""
    """The part's key in a dictionary; empty if it has none."""


def leaves_of(element: Any) -> Iterator[tuple[Leaf, Any]]:
    """The parts of an element: a tuple is (x, y, sample_weight) as in fit, anything else is x."""
    values = element if isinstance(element, tuple) and 1 <= len(element) <= len(_ROLES) else (element,)
    for role, value in zip(_ROLES, values, strict=False):
        yield from named(role, value)


def named(role: str, value: Any) -> Iterator[tuple[Leaf, Any]]:
    """The parts of x, y or the weights."""
    yield from _parts(role, role, "", value)


def _parts(role: str, name: str, key: str, value: Any) -> Iterator[tuple[Leaf, Any]]:
    if value is None:
        return
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _parts(role, f"{name}[{inner!r}]", str(inner), each)
    elif isinstance(value, tuple) or (isinstance(value, list) and not _is_array(value)):
        for index, each in enumerate(value):
            yield from _parts(role, f"{name}[{index}]" if len(value) > 1 else name, "", each)
    else:
        yield Leaf(role, name, key), value


def _is_array(value: list[Any]) -> bool:
    """True if a list holds numbers, not tensors: Keras takes it as one array then."""
    return not any(tf.is_tensor(each) or hasattr(each, "shape") or isinstance(each, Mapping) for each in value)
