"""Represents a traced graph as a flat list of operations at one batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.planning.program import Storage

Elsewhere = Callable[[Any], bool]
"""A function that returns True for operations that run on a different device from the one described."""


def in_order(graph: Any) -> list[Any]:
    """Return the operations of a graph, each after the ones it needs, even if those were added to the graph later."""
    ordered: dict[str, Any] = {}
    for last in graph.get_operations():
        stack = [last]
        while stack:
            operation = stack[-1]
            needed = [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
            missing = [one for one in needed if one.name not in ordered]
            if missing:
                stack += missing
            else:
                ordered.setdefault(operation.name, stack.pop())
    return list(ordered.values())


def called(graph: Any, operation: Any) -> Any:
    return function_named(graph, operation.get_attr("f").name)


def function_named(graph: Any, name: str) -> Any:
    while graph is not None:
        found = TENSORFLOW.graph_functions.get(graph, {}).get(name)
        if found is not None:
            return getattr(found, "graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def is_list(tensor: Any) -> bool:
    """True if the tensor is a list of tensors."""
    return bool(tensor.dtype.name == "variant")


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
    """True if the operation runs even if nothing reads its outputs."""


@dataclass
class FlatGraph:
    """All operations of a step at one batch size."""

    operations: list[Flat] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Remarks on sizes that are missing or only assumed, one sentence each."""
    elsewhere: Elsewhere | None = None
    """Returns True for operations to leave out because they belong to other replicas; None to keep all operations."""
    guessed_loop: str = ""
    """A sentence about the first loop whose number of iterations is a guess; empty if there is none."""


def operations_before(flat: FlatGraph, wanted: set[int]) -> Iterator[int]:
    """Yield the indices of the operations that the wanted ones need, directly or through others."""
    makers = {tensor: index for index, made in enumerate(flat.operations) for tensor in made.outputs}
    seen, stack = set(wanted), list(wanted)
    while stack:
        made = flat.operations[stack.pop()]
        needed = [makers[tensor] for tensor in made.inputs if tensor in makers] + made.before
        new = [index for index in needed if index not in seen]
        seen.update(new)
        stack.extend(new)
    return iter(sorted(seen))
