"""Censuses: what the script's process holds at one moment, as counts and bytes by owner, type and function. Pure.

A census names only identifiers: variables, attributes, types and functions. It never contains keys or values of the
script's objects. A census that is read from a file may be damaged or planted, so its types and names are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from oomph.files.conforming import conforms

Kind = Literal[
    "list", "dict", "set", "deque", "queue", "cache", "cycle", "array",
    "figure", "model", "optimizer", "tape", "dataset", "iterator", "graph", "writer", "thread", "tensor", "object",
]  # fmt: skip
"""The kind of something held: a container or array with an owner, or the objects of related types."""
KINDS: frozenset[str] = frozenset(get_args(Kind))
MOST_HOLDINGS = 48
_MOST_NAME = 80
_IN_NAMES = frozenset("_.[]<>() ")
"""The characters that names contain in addition to letters and digits."""


@dataclass(frozen=True)
class Holding:
    """One container or array with its owner, or all living objects of related types."""

    kind: Kind
    name: str
    """The owner ("history", "Recorder.outputs"), the function that was traced, or the type of the objects."""
    count: int
    """The number of items or objects. An array counts as one."""
    bytes: int = 0
    """The estimated size, or 0 if it is unknown, as for figures and graphs."""
    items: str = ""
    """The type of the newest item."""
    limit: int | None = None
    """The number of items that it can hold: a deque's `maxlen`, a cache's `maxsize`."""
    is_bounded: bool = False
    """True if the script's code limits it: it removes or overwrites items, or adds each key only once."""


@dataclass(frozen=True)
class Census:
    """Everything counted at one moment in one process."""

    time: float
    """The Unix time, in seconds."""
    process: int
    """The pid of the training process."""
    step: int
    """The number of steps completed."""
    epoch: int
    """The current epoch, counted from 1; 0 if unknown."""
    resident_bytes: float
    tensor_bytes: float | None
    """The bytes that TensorFlow's allocator has in use, or None if it does not report them."""
    holdings: tuple[Holding, ...]


def as_document(census: Census) -> dict[str, Any]:
    """Return the census as JSON values."""
    return {
        "time": round(census.time, 3),
        "process": census.process,
        "step": census.step,
        "epoch": census.epoch,
        "resident": round(census.resident_bytes),
        "tensors": None if census.tensor_bytes is None else round(census.tensor_bytes),
        "holdings": [
            [each.kind, each.name, each.count, each.bytes, each.items, each.limit, int(each.is_bounded)]
            for each in census.holdings[:MOST_HOLDINGS]
        ],
    }


_FIELDS: Mapping[str, Any] = {
    "time": float,
    "process": int,
    "step": int,
    "epoch": int,
    "resident": int,
    "tensors": int | None,
    "holdings": list[tuple[str, str, int, int, str, int | None, int]],
}


def census_of(document: Any) -> Census | None:
    """Parse a census without the holdings that cannot be printed, or return None if it is something else."""
    if not isinstance(document, Mapping):
        return None
    if not all(conforms(document.get(name), kind) for name, kind in _FIELDS.items()):
        return None
    time, process, step, epoch, resident, tensors, rows = (document[name] for name in _FIELDS)
    if isinstance(time, str) or min(time, process, step, epoch, resident, tensors or 0) < 0:
        return None
    holdings = (_holding_of(*row) for row in rows[:MOST_HOLDINGS])
    return Census(time, process, step, epoch, resident, tensors, tuple(each for each in holdings if each is not None))


def _holding_of(
    kind: Any, name: str, count: int, size: int, items: str, limit: int | None, is_bounded: int
) -> Holding | None:
    if kind not in KINDS or not is_name(name) or not (items == "" or is_name(items)):
        return None
    if min(count, size, limit or 0) < 0:
        return None
    return Holding(kind, name, count, size, items, limit, is_bounded == 1)


def is_name(text: Any) -> bool:
    """True for a name that may be printed: identifiers, joined as in "Recorder.outputs", "cache[]" or "x (in main)"."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= _MOST_NAME
        and all(character.isalnum() or character in _IN_NAMES for character in text)
    )
