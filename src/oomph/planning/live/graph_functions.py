"""The functions of a graph, and the order of its operations."""

from __future__ import annotations

from typing import Any

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


def in_order(graph: Any) -> list[Any]:
    """The operations of a graph, each after those that it needs, even if these were added to the graph later."""
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
