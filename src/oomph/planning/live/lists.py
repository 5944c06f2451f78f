"""Follows TensorFlow's lists of tensors while a graph is read: each item remains the tensor that was pushed.

A tensor pushed by the forward loop thus lives until the backward loop has used it, as in reality.

Source: tensorflow/core/kernels/list_kernels.cc; `TensorListBinaryAdd` in tensor_list.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from oomph.planning.live.flat_graph import Flat, is_list
from oomph.planning.live.loops import Number, number_of
from oomph.planning.program import Storage

MAKERS = frozenset({"EmptyTensorList", "TensorListReserve"})
ASKED = frozenset({"TensorListElementShape", "TensorListLength"})
"""Operations that only query the length of a list or the shape of its elements."""
_SAME_LIST = frozenset({"Identity", "StopGradient"})


@dataclass(frozen=True)
class ListItem:
    """One element of a list of tensors."""

    tensor: int | None = None
    """The index of the flat tensor; None if the element is empty or only a number."""
    value: Number | None = None
    """The element's value if it is a known number; None otherwise."""
    size: int = 0
    """The size in bytes of this element; its tensor may contain others as well."""


Items = tuple[ListItem, ...]


class Known(NamedTuple):
    """Facts about a tensor, collected while a graph is read."""

    tensor: int | None = None
    number: Number | None = None
    items: Items | None = None


class Reader(Protocol):
    """The part of a graph reader (`Scope` in `flattening.py`) that this module needs."""

    tensors: dict[Any, int]
    numbers: dict[Any, Number]
    lists: dict[Any, Items]

    @property
    def sizes(self) -> list[int]:
        """The sizes of the flat tensors, in bytes."""

    def give(self, placeholder: Any, known: Known) -> None:
        """Record facts about a tensor."""

    def known(self, tensor: Any) -> Known:
        """Return the known facts about a tensor."""

    def make(self, operation: Any, storage: Storage, workspace: int = 0) -> Flat:
        """Add one operation unchanged."""

    def put(self, operation: Any, inputs: list[int], sizes: list[int], storage: Storage, workspace: int = 0) -> Flat:
        """Add one operation with these flat tensors as inputs, and outputs of these sizes in bytes."""

    def size_of(self, tensor: Any, operation: Any) -> int:
        """Return the size in bytes of an output."""


def follow(scope: Reader, operation: Any) -> bool:
    """Apply an operation to a list whose items are known. Returns False if the operation has no such list."""
    kind, inputs, outputs = operation.type, operation.inputs, operation.outputs
    if kind in MAKERS:
        scope.lists[outputs[0].ref()] = ()
        scope.make(operation, Storage.HELD)
        return True
    if kind == "TensorListFromTensor":
        return _list_of_rows(scope, operation)
    items = scope.lists.get(inputs[0].ref()) if len(inputs) and is_list(inputs[0]) else None
    if items is None:
        return False
    if kind in ASKED:
        scope.make(operation, Storage.HELD)
        return True
    if kind in _SAME_LIST:
        for tensor in outputs:
            scope.give(tensor, scope.known(inputs[0]))
        return True
    if kind == "ZerosLike":
        return _zeros(scope, operation, items)
    change = _CHANGES.get(kind)
    return change is not None and change(scope, operation, items)


def _list_of_rows(scope: Reader, operation: Any) -> bool:
    rows = operation.inputs[0].shape[0]
    if rows is None:
        return False
    given = operation.inputs[0]
    made = scope.put(operation, [scope.tensors[given.ref()]], [scope.size_of(given, operation)], Storage.NEW)
    scope.lists[operation.outputs[0].ref()] = (
        ListItem(made.outputs[0], size=scope.sizes[made.outputs[0]] // max(1, rows)),
    ) * rows
    return True


def _item(scope: Reader, tensor: Any) -> ListItem:
    known = scope.tensors.get(tensor.ref())
    return ListItem(known, number_of(tensor, scope.numbers), 0 if known is None else scope.sizes[known])


def _take(scope: Reader, operation: Any, output: Any, item: ListItem) -> None:
    """Map an output to an item; an empty item becomes a tensor of zeros."""
    if item.value is not None:
        scope.numbers[output.ref()] = item.value
    if item.tensor is not None:
        scope.tensors[output.ref()] = item.tensor
    elif item.value is None:
        made = scope.put(operation, [], [scope.size_of(output, operation)], Storage.NEW)
        scope.tensors[output.ref()] = made.outputs[0]


def _zeros(scope: Reader, operation: Any, items: Items) -> bool:
    """Add a tensor of zeros for each item."""
    sizes = [item.size for item in items]
    made = scope.put(operation, [], sizes, Storage.NEW)
    scope.lists[operation.outputs[0].ref()] = tuple(
        ListItem(tensor, size=size) for tensor, size in zip(made.outputs, sizes, strict=True)
    )
    return True


def _push(scope: Reader, operation: Any, items: Items) -> bool:
    scope.lists[operation.outputs[0].ref()] = (*items, _item(scope, operation.inputs[1]))
    return True


def _pop(scope: Reader, operation: Any, items: Items) -> bool:
    scope.lists[operation.outputs[0].ref()] = items[:-1]
    _take(scope, operation, operation.outputs[1], items[-1] if items else ListItem())
    return True


def _set(scope: Reader, operation: Any, items: Items) -> bool:
    index = number_of(operation.inputs[1], scope.numbers)
    if index is None:
        return False
    scope.lists[operation.outputs[0].ref()] = with_item(items, int(index), _item(scope, operation.inputs[2]))
    return True


def _get(scope: Reader, operation: Any, items: Items) -> bool:
    index = number_of(operation.inputs[1], scope.numbers)
    if index is None:
        return False
    _take(scope, operation, operation.outputs[0], item_at(items, int(index)))
    return True


def _stack(scope: Reader, operation: Any, items: Items) -> bool:
    made = scope.put(operation, tensors_in(items), [scope.size_of(operation.outputs[0], operation)], Storage.NEW)
    scope.tensors[operation.outputs[0].ref()] = made.outputs[0]
    return True


def _sum(scope: Reader, operation: Any, items: Items) -> bool:
    """Sum lists item by item, as TensorFlow does with gradients."""
    lists = [scope.lists.get(tensor.ref()) for tensor in operation.inputs]
    if any(one is None for one in lists):
        return False
    known = [one for one in lists if one is not None]
    total = []
    for index in range(max(map(len, known))):
        terms = tensors_in(tuple(item_at(one, index) for one in known))
        if len(terms) > 1:
            terms = scope.put(operation, terms, [scope.sizes[terms[0]]], Storage.FORWARDED).outputs
        total.append(ListItem(terms[0], size=scope.sizes[terms[0]]) if terms else ListItem())
    scope.lists[operation.outputs[0].ref()] = tuple(total)
    return True


_CHANGES: dict[str, Callable[[Reader, Any, Items], bool]] = {
    "AddN": _sum,
    "TensorListGetItem": _get,
    "TensorListPopBack": _pop,
    "TensorListPushBack": _push,
    "TensorListSetItem": _set,
    "TensorListStack": _stack,
}


def with_item(items: Items, index: int, item: ListItem) -> Items:
    """Return the list with one element set, extended if the index is past its end."""
    longer = items + (ListItem(),) * (index + 1 - len(items))
    return (*longer[:index], item, *longer[index + 1 :])


def item_at(items: Items, index: int) -> ListItem:
    """Return the element at an index, or an empty element if the index is out of range."""
    return items[index] if 0 <= index < len(items) else ListItem()


def tensors_in(items: Items) -> list[int]:
    """Return the distinct indices of the tensors in a list."""
    return list(dict.fromkeys(item.tensor for item in items if item.tensor is not None))
