"""Describes a traced graph as a flat list of operations."""

from __future__ import annotations

from typing import Any

from oomph.planning.live.flat_graph import Elsewhere, FlatGraph
from oomph.planning.live.scope import Scope
from oomph.planning.program import Storage


def flatten(graph: Any, elsewhere: Elsewhere | None = None) -> FlatGraph:
    """Describe a function's graph with fully known input shapes.

    Args:
        graph: the graph.
        elsewhere: returns True for operations to leave out, whose outputs arrive as copies.
    """
    flat = FlatGraph(elsewhere=elsewhere)
    scope = Scope(flat, "")
    for placeholder in graph.inputs:
        scope.make(placeholder.op, Storage.HELD if placeholder.dtype.name == "resource" else Storage.NEW)
    scope.add(graph)
    flat.kept = [scope.tensors[tensor.ref()] for tensor in graph.outputs if tensor.ref() in scope.tensors]
    return flat
