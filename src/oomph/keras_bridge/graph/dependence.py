"""Finds out if tensors of a traced step depend on a batch's samples or on weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarHandleOp")
_DIVISIONS = ("RealDiv", "DivNoNan", "Div")
_SAME_NUMBER = ("Identity", "Cast", "Reshape", "Squeeze", "Mean", "Sum")
"""Operations that pass on a single number unchanged."""


class OnBatch:
    """Decides which tensors depend on what differs between micro-batches.

    Sizes of samples do not: only the first dimension varies with their number. State inside a kernel does, such as its
    random numbers. Variables do not, since every micro-batch starts from the same values.

    Args:
        batch: the tensors of the batch, and whatever else differs between micro-batches.
    """

    def __init__(self, batch: Sequence[Any]) -> None:
        self._batch = {id(tensor) for tensor in batch}

    def __call__(self, tensor: Any) -> bool:
        """True if a tensor may differ between micro-batches."""
        return _reaches(tensor, lambda each: id(each) in self._batch or _keeps_to_itself(each), _is_size_of_a_sample)


def divisor_in_data(number: Any) -> Any:
    """The divisor of a sum in a traced number, if it depends on the data and on no variable; otherwise None.

    Such a number is a mean over something counted, such as the valid tokens of a batch.
    """
    if not tf.is_symbolic_tensor(number):
        return None
    number = _behind_the_same(number)
    if number.op.type not in _DIVISIONS:
        return None
    numerator, divisor = number.op.inputs
    is_constant = not _reaches(divisor, lambda each: each.op.type == "Placeholder" and each.dtype != tf.resource)
    if _behind_the_same(numerator).op.type != "Sum" or divisor.shape.rank != 0 or is_constant:
        return None
    return None if _reaches(divisor, lambda each: each.dtype == tf.resource or _keeps_to_itself(each)) else divisor


def _behind_the_same(number: Any) -> Any:
    """The tensor this single number comes from, skipping operations that pass it on unchanged."""
    while number.op.type in _SAME_NUMBER and number.op.inputs[0].shape.rank == 0:
        number = number.op.inputs[0]
    return number


def _reaches(tensor: Any, found: Callable[[Any], bool], stops: Callable[[Any], bool] = lambda each: False) -> bool:
    """True if a tensor is computed from one that `found` matches. Does not search behind those that `stops` matches."""
    waiting, seen = [tensor], set()
    while waiting:
        each = waiting.pop()
        if found(each):
            return True
        if each.op.name not in seen and not stops(each):
            seen.add(each.op.name)
            waiting += each.op.inputs
    return False


def _keeps_to_itself(tensor: Any) -> bool:
    """True if the kernel has its own state, or calls external code such as Python."""
    definition = tensor.op.op_def
    return definition is not None and definition.is_stateful and tensor.op.type not in _READS


def _is_size_of_a_sample(tensor: Any) -> bool:
    """True if this is a dimension of some tensor other than the first."""
    if tensor.op.type != "StridedSlice" or tensor.op.inputs[0].op.type != "Shape":
        return False
    begin, rank = tf.get_static_value(tensor.op.inputs[1]), tensor.op.inputs[0].op.inputs[0].shape.rank
    if begin is None or rank is None or not tensor.op.get_attr("shrink_axis_mask"):
        return False
    return bool(int(begin[0]) % rank > 0)
