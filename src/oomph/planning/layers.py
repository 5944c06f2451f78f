"""Assigns operations to layers, by the scopes in their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from oomph.planning.estimate import Layer

_NUMBER = re.compile(r"_\d{1,4}\Z")
_GRADIENT = "gradient_tape/"


def is_gradient(operation: str) -> bool:
    """True if the operation belongs to the backward pass."""
    return operation.startswith(_GRADIENT)


def layer_of(operation: str, names: Collection[str]) -> str:
    """The innermost scope in an operation's name that is the name of a layer; empty if there is none.

    TensorFlow numbers a scope entered again: `conv2d_1_2` may be `conv2d_1` for the second time.
    """
    for scope in reversed(operation.removeprefix(_GRADIENT).split("/")[:-1]):
        if scope in names:
            return scope
        bare = _NUMBER.sub("", scope)
        if bare in names:
            return bare
    return ""


def by_layer(sizes: Iterable[tuple[str, int]], names: Collection[str], other: str = "other") -> tuple[Layer, ...]:
    """The bytes of operations added up by layer, the layer with most bytes first."""
    total: Counter[str] = Counter()
    for operation, size in sizes:
        total[layer_of(operation, names) or other] += size
    return tuple(Layer(name, size) for name, size in total.most_common())
