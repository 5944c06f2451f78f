"""Facts about a tensor while a graph is read: its flat tensor, its value, its items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from oomph.planning.live.scalars import Number


@dataclass(frozen=True)
class ListItem:
    """One element of a list of tensors."""

    tensor: int | None = None
    """The index of the flat tensor; None if the element is empty or only a number."""
    value: Number | None = None
    """The value of the element if it is a known number; None otherwise."""
    size: int = 0
    """The bytes of this element; its tensor may hold others too."""


Items = tuple[ListItem, ...]


class Known(NamedTuple):
    """Facts about a tensor while a graph is read."""

    tensor: int | None = None
    number: Number | None = None
    items: Items | None = None
