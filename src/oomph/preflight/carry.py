"""Forecast of a fault's effects: one line each for micro-batches, the data, seeds, callbacks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

EXACT, UNCOMPARED, PARTLY, LOST, UNKNOWN = "exact", "uncompared", "partly", "lost", "unknown"
"""EXACT: done and compared here. UNCOMPARED: nothing is known against it. UNKNOWN: not tried."""


@dataclass(frozen=True)
class Carried:
    """The fate, after a fault, of one thing that a training needs."""

    what: str
    """The name of the thing: "out of memory", "data", "seeds", "callbacks", "loop"."""
    state: str
    text: str
    """The fate of it and the reason, in one sentence without a final stop."""
    better: str = ""
    """The change that would improve it; empty if none is needed."""

    def as_document(self) -> dict[str, str]:
        """The fields as plain JSON."""
        return asdict(self)


def carried_of(document: Mapping[str, Any]) -> Carried:
    """The value of its JSON document. Raises KeyError or TypeError for any other document."""
    return Carried(*(str(document[name]) for name in ("what", "state", "text", "better")))
