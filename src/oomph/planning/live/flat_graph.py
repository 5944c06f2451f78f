"""A traced graph as a flat list of operations at one batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from oomph.planning.program import Storage

Elsewhere = Callable[[Any], bool]
"""A function that returns True if an operation runs on a device other than the one described."""


@dataclass
class Flat:
    """One operation at one batch size, with sizes in bytes."""

    name: str
    kind: str
    inputs: list[int]
    outputs: list[int]
    before: list[int]
    storage: Storage
    workspace: int = 0
    work: int = 0
    is_effect: bool = False
    """True if the operation runs although nothing reads its outputs."""


@dataclass
class FlatGraph:
    """All operations of a step at one batch size."""

    operations: list[Flat] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Sizes that are missing or only assumed, one sentence each."""
    elsewhere: Elsewhere | None = None
    """Returns True for operations to leave out, those of other replicas; None keeps all."""
    guessed_loop: str = ""
    """A sentence on the first loop whose number of iterations is a guess; empty if there is none."""


def operations_before(flat: FlatGraph, wanted: set[int]) -> Iterator[int]:
    """The indices of the operations that the wanted ones need, directly or through others."""
    makers = {tensor: index for index, made in enumerate(flat.operations) for tensor in made.outputs}
    seen, stack = set(wanted), list(wanted)
    while stack:
        made = flat.operations[stack.pop()]
        needed = [makers[tensor] for tensor in made.inputs if tensor in makers] + made.before
        new = [index for index in needed if index not in seen]
        seen.update(new)
        stack.extend(new)
    return iter(sorted(seen))
