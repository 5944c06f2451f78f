"""Flattens a traced graph into operations: inlines calls, unrolls loops, summarises branches and very long loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.planning.breakdown import ARRIVED
from oomph.planning.live.flat_graph import Elsewhere, Flat, FlatGraph, called, function_named, in_order, is_list
from oomph.planning.live.kernels import (
    BRANCHES,
    FUNCTION_CALLS,
    GATHERS,
    HELD,
    HOST,
    LOOPS,
    storage_of,
    work_of,
    workspace_of,
)
from oomph.planning.live.lists import Items, Known, follow
from oomph.planning.live.loops import Number, assumed_iterations, iterations, kept_by_each, number_of
from oomph.planning.program import Storage

_MOST_OPERATIONS = 60_000
"""The number of operations over all iterations above which a loop is represented by a single operation."""


class Scope:
    """One function body, whose tensors are mapped to flat tensors.

    Args:
        flat: the graph to add operations to.
        prefix: the prefix for the names of these operations.
    """

    def __init__(self, flat: FlatGraph, prefix: str) -> None:
        self.flat, self.prefix = flat, prefix
        self.tensors: dict[Any, int] = {}
        self.numbers: dict[Any, Number] = {}
        """The values of scalars that are known without running the graph."""
        self.lists: dict[Any, Items] = {}
        """The items of each list of tensors."""
        self._ends: dict[str, list[int]] = {}
        """The flat operations that must finish before an operation counts as finished, keyed by operation name."""

    @property
    def sizes(self) -> list[int]:
        """The sizes of the flat tensors, in bytes."""
        return self.flat.sizes

    # -- a function's arguments and results ---------------------------------------------------------------------------

    def give(self, placeholder: Any, known: Known) -> None:
        """Record the facts about a function's argument."""
        if known.tensor is not None:
            self.tensors[placeholder.ref()] = known.tensor
        if known.number is not None:
            self.numbers[placeholder.ref()] = known.number
        if known.items is not None:
            self.lists[placeholder.ref()] = known.items

    def known(self, tensor: Any) -> Known:
        """Return the known facts about a tensor."""
        return Known(self.tensors.get(tensor.ref()), number_of(tensor, self.numbers), self.lists.get(tensor.ref()))

    # -- operations ---------------------------------------------------------------------------------------------------

    def add(self, graph: Any) -> None:
        """Add all operations of a graph."""
        for operation in in_order(graph):
            if operation.type == "Placeholder" or self._is_elsewhere(operation):
                continue  # an input that is already known, or an operation of another replica
            body = called(graph, operation) if operation.type in FUNCTION_CALLS else None
            if body is not None:
                self._inline(body, operation)
            elif operation.type in LOOPS:
                self._loop(graph, operation)
            elif operation.type in BRANCHES:
                self._branch(graph, operation)
            elif not (self._is_a_number(operation) or follow(self, operation)):
                self.make(operation, storage_of(operation.type), workspace_of(operation))

    def make(self, operation: Any, storage: Storage, workspace: int = 0) -> Flat:
        """Add one operation unchanged."""
        sizes = [self.size_of(tensor, operation) for tensor in operation.outputs]
        return self._make(operation, sizes, storage, workspace)

    def _make(self, operation: Any, sizes: list[int], storage: Storage, workspace: int) -> Flat:
        self._take_in(operation)
        inputs = [self.tensors[tensor.ref()] for tensor in operation.inputs if tensor.ref() in self.tensors]
        made = self.put(operation, inputs, sizes, storage, workspace)
        self.tensors.update(
            {tensor.ref(): index for tensor, index in zip(operation.outputs, made.outputs, strict=True)}
        )
        return made

    def _is_elsewhere(self, operation: Any) -> bool:
        return self.flat.elsewhere is not None and self.flat.elsewhere(operation)

    def _take_in(self, operation: Any) -> None:
        """Add copies of inputs from other devices. They arrive once the operation's own inputs are available."""
        if self.flat.elsewhere is None:
            return
        given = [tensor for tensor in operation.inputs if self._is_elsewhere(tensor.op)]
        for tensor in given:
            if tensor.ref() in self.tensors or tensor.dtype.name in ("resource", "variant"):
                continue
            size = self.size_of(tensor, operation)
            own = [self.tensors[one.ref()] for one in operation.inputs if one.ref() in self.tensors]
            ends = [index for index, made in enumerate(self.flat.operations) if set(own).intersection(made.outputs)]
            self.tensors[tensor.ref()] = len(self.flat.sizes)
            self.flat.operations.append(
                Flat(
                    f"{self.prefix}{tensor.op.name}/copy", ARRIVED, [], [len(self.flat.sizes)], ends, Storage.NEW,
                    work=size,
                )
            )  # fmt: skip
            self.flat.sizes.append(size)

    def put(self, operation: Any, inputs: list[int], sizes: list[int], storage: Storage, workspace: int = 0) -> Flat:
        flat = self.flat
        outputs = list(range(len(flat.sizes), len(flat.sizes) + len(sizes)))
        flat.sizes.extend(sizes)
        before = [end for other in operation.control_inputs for end in self._ends.get(other.name, ())]
        made = Flat(
            f"{self.prefix}{operation.name}", operation.type, inputs, outputs, before, storage, workspace,
            work=work_of(operation), is_effect=_is_effect(operation),
        )  # fmt: skip
        self._ends[operation.name] = [len(flat.operations)]
        flat.operations.append(made)
        return made

    def _inline(self, body: Any, operation: Any) -> None:
        given = [self.known(tensor) for tensor in operation.inputs]
        first = len(self.flat.operations)
        results = self._run(body, given, f"{self.prefix}{operation.name}/")
        self._finish(operation, results, first)

    def _run(self, body: Any, given: Sequence[Known], prefix: str) -> list[Known]:
        """Add a function's operations once, and return the known facts about its results."""
        inner = Scope(self.flat, prefix)
        for placeholder, known in zip(body.inputs, given, strict=False):
            inner.give(placeholder, known)
        inner.add(body)
        return [inner.known(result) for result in body.outputs]

    def _finish(self, operation: Any, results: Sequence[Known], first: int) -> None:
        """Record facts about the outputs of an operation whose inner operations start at index `first`."""
        for tensor, known in zip(operation.outputs, results, strict=True):
            self.give(tensor, known)
        made = self.flat.operations[first:]
        self._ends[operation.name] = [first + i for i, inside in enumerate(made) if inside.is_effect]

    def _is_a_number(self, operation: Any) -> bool:
        """True if the operation only produces a scalar of known value, which takes almost no memory."""
        if len(operation.outputs) != 1 or operation.control_inputs or operation.outputs[0].shape.rank != 0:
            return False
        value = number_of(operation.outputs[0], self.numbers)
        if value is None:
            return False
        self.numbers[operation.outputs[0].ref()] = value
        return True

    # -- loops and branches -------------------------------------------------------------------------------------------

    def _loop(self, graph: Any, operation: Any) -> None:
        body, goes_on = (function_named(graph, operation.get_attr(name).name) for name in ("body", "cond"))
        if body is None:
            self.flat.unknown.append(f"the body of the loop {operation.name} is not counted")
            self.make(operation, Storage.NEW)
        elif not self._unroll(operation, body, goes_on):
            self._sum_up(operation, body)

    def _unroll(self, operation: Any, body: Any, goes_on: Any) -> bool:
        """Add the iterations of a loop one after another. Returns False if their number is unknown or too large."""
        given = [self.known(tensor) for tensor in operation.inputs]
        is_followed = all(
            known.items is not None for tensor, known in zip(operation.inputs, given, strict=True) if is_list(tensor)
        )
        trips = iterations(
            goes_on, body, [known.number for known in given], _MOST_OPERATIONS // max(1, len(body.get_operations()))
        )
        if trips is None or not is_followed:
            return False
        first = len(self.flat.operations)
        for number in range(trips):
            given = self._run(body, given, f"{self.prefix}{operation.name}/{number}/")
        self._finish(operation, given, first)
        return True

    def _sum_up(self, operation: Any, body: Any) -> None:
        """Add a loop as a single operation."""
        trips, is_known = assumed_iterations(operation)
        if not is_known:
            guessed = (
                f"the loop {operation.name} is assumed to run {trips} iterations, since its graph does not show how "
                "many"
            )
            self.flat.unknown.append(guessed)
            self.flat.guessed_loop = self.flat.guessed_loop or guessed
        each, grown, sizes = _all_new(body), kept_by_each(body), []
        for index, tensor in enumerate(operation.outputs):
            if is_list(tensor):
                given = operation.inputs[index]
                before = self.flat.sizes[self.tensors[given.ref()]] if given.ref() in self.tensors else 0
                sizes.append(max(before, trips * grown.get(index, 0)))
            else:
                sizes.append(self.size_of(tensor, operation))
        self._make(operation, sizes, Storage.FORWARDED, each)

    def _branch(self, graph: Any, operation: Any) -> None:
        """Add the branch that allocates the most memory, as if it were always taken."""
        names = [operation.get_attr(name) for name in ("then_branch", "else_branch") if _has(operation, name)]
        names = names or list(operation.get_attr("branches"))
        bodies = [body for body in (function_named(graph, each.name) for each in names) if body is not None]
        if not bodies:
            self.make(operation, Storage.NEW)
            return
        first = len(self.flat.operations)
        given = [self.known(tensor) for tensor in list(operation.inputs)[1:]]
        results = self._run(max(bodies, key=_all_new), given, f"{self.prefix}{operation.name}/")
        self._finish(operation, results, first)

    # -- sizes --------------------------------------------------------------------------------------------------------

    def size_of(self, tensor: Any, operation: Any) -> int:
        """Return the size in bytes of an output, which is assumed if the graph does not determine its shape."""
        if tensor.dtype.name == "resource":
            return 0
        if is_list(tensor):
            return self._list_size(operation)
        size = _bytes(tensor)
        if size is not None:
            return size
        if operation.type in HOST:
            return 0
        largest = max(
            (self.flat.sizes[self.tensors[one.ref()]] for one in operation.inputs if one.ref() in self.tensors),
            default=0,
        )
        each, times = "", 1
        if operation.type in GATHERS:
            times = int(number_of(operation.inputs[1], self.numbers) or 1)
            each = f" on {times} replicas"
        self.flat.unknown.append(f"{self.prefix}{operation.name} is assumed to be as large as its largest input{each}")
        return largest * times

    def _list_size(self, operation: Any) -> int:
        if operation.type in ("TensorListSetItem", "TensorListPushBack"):
            given = self.tensors.get(operation.inputs[0].ref())
            return 0 if given is None else self.flat.sizes[given]
        return 0


def _bytes(tensor: Any) -> int | None:
    count = tensor.shape.num_elements()
    return None if count is None else int(count) * max(1, tensor.dtype.size or 1)


def _all_new(body: Any) -> int:
    """Return the total number of bytes allocated by a function's operations, an upper bound on its peak."""
    inside = FlatGraph()
    scope = Scope(inside, "")
    for placeholder in body.inputs:
        scope.make(placeholder.op, Storage.NEW)
    scope.add(body)
    return sum(
        inside.sizes[output] for made in inside.operations if made.storage is Storage.NEW for output in made.outputs
    )


def _has(operation: Any, name: str) -> bool:
    return name in operation.node_def.attr


def _is_effect(operation: Any) -> bool:
    return bool(operation.op_def is not None and operation.op_def.is_stateful) and operation.type not in HELD


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
