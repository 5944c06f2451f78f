"""Describes a traced graph as a flat list of operations: calls are inlined, loops and branches are summed up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from oomph.memory.program import Storage
from oomph.tensorflow.names.tensorflow2 import TENSORFLOW
from oomph.tensorflow.planning.kernels import work_of, workspace_of
from oomph.tensorflow.planning.kinds import BRANCHES, FUNCTION_CALLS, HELD, HOST, LOOPS, storage_of

_UNKNOWN_TRIPS = 32
"""How often a loop is assumed to run where its graph does not say."""


@dataclass
class Flat:
    """One operation at one batch size; sizes in bytes."""

    name: str
    kind: str
    inputs: list[int]
    outputs: list[int]
    before: list[int]
    storage: Storage
    workspace: int = 0
    work: int = 0
    is_effect: bool = False
    """Whether it runs although nothing reads its outputs."""


@dataclass
class FlatGraph:
    """All operations of a step at one batch size."""

    operations: list[Flat] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """What the sizes do not contain or only assume, one sentence each."""


def flatten(graph: Any) -> FlatGraph:
    """Describe a function's graph whose input shapes are all known."""
    flat = FlatGraph()
    scope = _Scope(flat, "")
    for placeholder in graph.inputs:
        scope.make(placeholder.op, Storage.HELD if placeholder.dtype.name == "resource" else Storage.NEW)
    scope.add(graph)
    flat.kept = [scope.tensors[tensor.ref()] for tensor in graph.outputs if tensor.ref() in scope.tensors]
    return flat


class _Scope:
    """One function body: which of the flat tensors each of its tensors is."""

    def __init__(self, flat: FlatGraph, prefix: str) -> None:
        self._flat, self._prefix = flat, prefix
        self.tensors: dict[Any, int] = {}
        self._ends: dict[str, list[int]] = {}
        """By name of an operation: the flat operations that must have ended when it has."""

    def add(self, graph: Any) -> None:
        for operation in graph.get_operations():
            if operation.type == "Placeholder":
                continue  # an input, already known
            called = _called(graph, operation) if operation.type in FUNCTION_CALLS else None
            if called is not None:
                self._inline(called, operation)
            elif operation.type in LOOPS:
                self._loop(graph, operation)
            elif operation.type in BRANCHES:
                self._branch(graph, operation)
            else:
                self.make(operation, storage_of(operation.type), workspace_of(operation))

    def make(self, operation: Any, storage: Storage, workspace: int = 0) -> Flat:
        """Add one operation as it is."""
        sizes = [self._size(tensor, operation) for tensor in operation.outputs]
        return self._make(operation, sizes, storage, workspace)

    def _make(self, operation: Any, sizes: list[int], storage: Storage, workspace: int) -> Flat:
        flat = self._flat
        outputs = list(range(len(flat.sizes), len(flat.sizes) + len(sizes)))
        flat.sizes.extend(sizes)
        self.tensors.update({tensor.ref(): index for tensor, index in zip(operation.outputs, outputs, strict=True)})
        inputs = [self.tensors[tensor.ref()] for tensor in operation.inputs if tensor.ref() in self.tensors]
        before = [end for other in operation.control_inputs for end in self._ends.get(other.name, ())]
        made = Flat(
            f"{self._prefix}{operation.name}", operation.type, inputs, outputs, before, storage, workspace,
            work=work_of(operation), is_effect=_is_effect(operation),
        )  # fmt: skip
        self._ends[operation.name] = [len(flat.operations)]
        flat.operations.append(made)
        return made

    def _inline(self, body: Any, operation: Any) -> None:
        inner = _Scope(self._flat, f"{self._prefix}{operation.name}/")
        for placeholder, given in zip(body.inputs, operation.inputs, strict=False):
            if given.ref() in self.tensors:
                inner.tensors[placeholder.ref()] = self.tensors[given.ref()]
        first = len(self._flat.operations)
        inner.add(body)
        for tensor, result in zip(operation.outputs, body.outputs, strict=True):
            if result.ref() in inner.tensors:
                self.tensors[tensor.ref()] = inner.tensors[result.ref()]
        made = self._flat.operations[first:]
        self._ends[operation.name] = [first + i for i, inside in enumerate(made) if inside.is_effect]

    def _loop(self, graph: Any, operation: Any) -> None:
        body = _function(graph, operation.get_attr("body").name)
        if body is None:
            self._flat.unknown.append(f"the body of the loop {operation.name} is not counted")
            self.make(operation, Storage.NEW)
            return
        trips, is_known = _trips(operation)
        if not is_known:
            self._flat.unknown.append(f"the loop {operation.name} is counted as {trips} iterations")
        each = _all_new(body)
        grown = _pushed(body)
        sizes = []
        for index, tensor in enumerate(operation.outputs):
            if tensor.dtype.name == "variant":
                given = operation.inputs[index]
                before = self._flat.sizes[self.tensors[given.ref()]] if given.ref() in self.tensors else 0
                sizes.append(max(before, trips * grown.get(index, 0)))
            else:
                sizes.append(self._size(tensor, operation))
        self._make(operation, sizes, Storage.FORWARDED, each)

    def _branch(self, graph: Any, operation: Any) -> None:
        names = [operation.get_attr(name) for name in ("then_branch", "else_branch") if _has(operation, name)]
        names = names or list(operation.get_attr("branches"))
        bodies = [body for body in (_function(graph, each.name) for each in names) if body is not None]
        self.make(operation, Storage.NEW, max(map(_all_new, bodies), default=0))

    def _size(self, tensor: Any, operation: Any) -> int:
        if tensor.dtype.name in ("resource", "variant"):
            return self._list_size(tensor, operation) if tensor.dtype.name == "variant" else 0
        count = tensor.shape.num_elements()
        if count is not None:
            return int(count) * max(1, tensor.dtype.size or 1)
        if operation.type in HOST:
            return 0
        largest = max(
            (self._flat.sizes[self.tensors[one.ref()]] for one in operation.inputs if one.ref() in self.tensors),
            default=0,
        )
        self._flat.unknown.append(
            f"the size of {self._prefix}{operation.name} is taken to be that of its largest input"
        )
        return largest

    def _list_size(self, tensor: Any, operation: Any) -> int:
        if operation.type == "TensorListFromTensor":
            return self._size(operation.inputs[0], operation)
        if operation.type in ("TensorListSetItem", "TensorListPushBack"):
            given = self.tensors.get(operation.inputs[0].ref())
            return 0 if given is None else self._flat.sizes[given]
        return 0


def _all_new(body: Any) -> int:
    """What all operations of a function take together, in bytes: more than it needs at any one time."""
    inside = flatten(body)
    return sum(
        inside.sizes[output] for made in inside.operations if made.storage is Storage.NEW for output in made.outputs
    )


def _trips(operation: Any) -> tuple[int, bool]:
    for tensor in list(operation.inputs)[:3]:
        value = tf.get_static_value(tensor)
        if value is None and tensor.op.type == "Max":  # Keras' way to say how many steps the longest sequence has
            value = tf.get_static_value(tensor.op.inputs[0])
            value = None if value is None else value.max()
        if value is not None and value.ndim == 0 and value.dtype.kind == "i" and value > 1:
            return int(value), True
    return _UNKNOWN_TRIPS, False


def _pushed(body: Any) -> dict[int, int]:
    """By index of a loop variable that is a list: how many bytes one iteration adds to it."""
    added: dict[int, int] = {}
    for index, result in enumerate(body.outputs):
        operation = result.op
        while operation.type in ("Identity", "TensorListPushBack", "TensorListSetItem"):
            if operation.type != "Identity":
                item = operation.inputs[-1]
                if item.op.type == "ReadVariableOp" or item.dtype.name in ("resource", "variant"):
                    operation = operation.inputs[0].op
                    continue
                added[index] = added.get(index, 0) + int(item.shape.num_elements() or 0) * (item.dtype.size or 1)
            operation = operation.inputs[0].op
    return added


def _called(graph: Any, operation: Any) -> Any:
    return _function(graph, operation.get_attr("f").name)


def _function(graph: Any, name: str) -> Any:
    while graph is not None:
        found = TENSORFLOW.graph_functions.get(graph, {}).get(name)
        if found is not None:
            return getattr(found, "graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def _has(operation: Any, name: str) -> bool:
    return name in operation.node_def.attr


def _is_effect(operation: Any) -> bool:
    return bool(operation.op_def is not None and operation.op_def.is_stateful) and operation.type not in HELD


def operations_before(flat: FlatGraph, wanted: set[int]) -> Iterator[int]:
    """The operations that the wanted ones need, directly or through others."""
    makers = {tensor: index for index, made in enumerate(flat.operations) for tensor in made.outputs}
    seen, stack = set(wanted), list(wanted)
    while stack:
        made = flat.operations[stack.pop()]
        needed = [makers[tensor] for tensor in made.inputs if tensor in makers] + made.before
        new = [index for index in needed if index not in seen]
        seen.update(new)
        stack.extend(new)
    return iter(sorted(seen))
