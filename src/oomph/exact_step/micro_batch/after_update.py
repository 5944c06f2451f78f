"""Handles assignments that a step computes from variables alone after its update: weight averages, target networks.

    for weight, average in zip(network.weights, averaged.weights):
        average.assign(0.999 * average + 0.001 * weight)

Micro-batches skip these assignments. The commit of the divided batch makes them once, from the updated weights. If a
value depends on the batch, or on the weights before the update, the step is not divided.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from oomph.keras_bridge.graph import tensorflow_variable
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import replaced, while_tracing

_METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "assign": lambda variable, value: value,
    "assign_add": lambda variable, value: variable.read_value() + value,
    "assign_sub": lambda variable, value: variable.read_value() - value,
}
"""Maps each assignment method of a variable to the value that it assigns."""
BY_ITSELF = "the step assigns weights itself"
_USES_UPDATE = "the step uses the weights after their update"


class AfterUpdate:
    """Records, without making them, the assignments after a traced micro-batch's first optimizer call."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.values: list[Any] = []
        self._noted: dict[int, int] = {}
        """Maps the `id` of a variable's handle to the graph's operation count when the variable was assigned."""

    @staticmethod
    @contextmanager
    def replaced(variables: list[Any], current: Callable[[], AfterUpdate | None]) -> Iterator[None]:
        """Within the block, record assignments to these variables instead of making them.

        Args:
            current: returns the recorder of the micro-batch being traced in this thread; None elsewhere or before the
                update.
        """
        with ExitStack() as undo:
            for variable in map(tensorflow_variable, variables):
                for name, value_of in _METHODS.items():
                    noted = functools.partial(_noted, variable, value_of)
                    undo.enter_context(replaced(variable, name, while_tracing(getattr(variable, name), current, noted)))
            yield

    def note(self, variable: Any, value: Any) -> None:
        """Record one assignment."""
        self.variables.append(variable)
        self.values.append(tf.convert_to_tensor(value, variable.dtype))
        self._noted[id(variable.handle)] = len(TENSORFLOW.default_graph.value()().get_operations())

    def reason(self, graph: Any, before: set[str], updated: set[int]) -> str:
        """Return why the commit cannot make these assignments, or an empty string if it can.

        For example, the step may use the updated weights elsewhere.

        Args:
            graph: the graph of the micro-batch.
            before: the names of the operations that existed at the first update.
            updated: the ids of the handles of the variables that the update changes.
        """
        captured = {id(inside): id(outside) for outside, inside in graph.captures}
        needed = _needed(self.values)
        for place, operation in enumerate(graph.get_operations()):
            handles = [captured[id(tensor)] for tensor in operation.inputs if id(tensor) in captured]
            if operation.name not in needed:
                stale = any(place >= self._noted.get(handle, math.inf) for handle in handles)
                if stale or (operation.name not in before and not updated.isdisjoint(handles)):
                    return _USES_UPDATE
            elif operation.type == "Placeholder":
                if id(operation.outputs[0]) not in captured:
                    return BY_ITSELF  # depends on the batch
            elif operation.type == "ReadVariableOp":
                if operation.name in before or any(place >= self._noted.get(handle, math.inf) for handle in handles):
                    return BY_ITSELF  # reads a variable before the update, or after a skipped assignment
                if _feeds_others(operation, needed):
                    return _USES_UPDATE
            elif operation.op_def.is_stateful:
                return BY_ITSELF
            elif operation.name not in before and operation.inputs and _feeds_others(operation, needed):
                return _USES_UPDATE
        return ""

    def assignments(self, concrete: Any) -> Assignments:
        """Return the assignments recorded from the micro-batch `concrete`, for use in a different graph."""
        graph, needed = concrete.graph, _needed(self.values)
        whole = graph.as_graph_def(add_shapes=True)
        nodes = [node for node in whole.node if node.name in needed and node.op != "Placeholder"]
        for node in nodes:  # drop control edges: in the commit, TensorFlow orders reads after preceding writes
            data = [name for name in node.input if not name.startswith("^")]
            node.ClearField("input")
            node.input.extend(data)
        captures = zip(graph.internal_captures, concrete.captured_inputs, strict=True)
        return Assignments(
            graph_pb2.GraphDef(node=nodes, versions=whole.versions, library=whole.library),
            {inner.name: outer for inner, outer in captures if inner.op.name in needed},
            tuple((variable, value.name) for variable, value in zip(self.variables, self.values, strict=True)),
        )


@dataclass(frozen=True)
class Assignments:
    """Assignments to make, with the graph that computes their values from captured variables."""

    definition: Any = None
    captures: dict[str, Any] = field(default_factory=dict)
    """Maps a tensor name in the definition to the captured tensor that it represents."""
    values: tuple[tuple[Any, str], ...] = ()
    """Each variable, paired with the name of the tensor to assign to it."""

    def make(self) -> None:
        """Add these assignments to the function being traced."""
        if not self.values:
            return
        graph = TENSORFLOW.default_graph.value()()
        fed = {name: graph.capture(outer) for name, outer in self.captures.items()}
        names = [name for _, name in self.values]
        values = TENSORFLOW.import_graph_def.value()(self.definition, fed, names, name="after_update")
        for (variable, _), value in zip(self.values, values, strict=True):
            variable.assign(value, read_value=False)


def _noted(
    variable: Any,
    value_of: Callable[[Any, Any], Any],
    mine: AfterUpdate,
    original: Any,
    value: Any,
    *args: Any,
    **kw: Any,
) -> Any:
    mine.note(variable, value_of(variable, value))
    return variable


def _needed(values: list[Any]) -> set[str]:
    """Return the names of the operations that compute these values."""
    found: set[str] = set()
    remaining = [value.op for value in values]
    while remaining:
        operation = remaining.pop()
        if operation.name not in found:
            found.add(operation.name)
            remaining += [tensor.op for tensor in operation.inputs]
    return found


def _feeds_others(operation: Any, names: set[str]) -> bool:
    return any(user.name not in names for output in operation.outputs for user in output.consumers())
