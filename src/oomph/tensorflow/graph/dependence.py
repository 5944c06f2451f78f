"""What tensors of a traced step depend on: the samples of a batch, or weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarHandleOp")
_DIVISIONS = ("RealDiv", "DivNoNan", "Div")
_SAME_NUMBER = ("Identity", "Cast", "Reshape", "Squeeze", "Mean", "Sum")
"""Operations that hand a single number on as it is."""


class OnBatch:
    """Tells which tensors depend on what differs between the parts of a batch.

    Sizes of samples do not: only the first dimension goes with their number. What a kernel keeps to itself does, such
    as its random numbers; variables do not, since every part begins with the same.

    Args:
        batch: the tensors of the batch, and whatever else differs between parts.
    """

    def __init__(self, batch: Sequence[Any]) -> None:
        self._batch = {id(tensor) for tensor in batch}

    def __call__(self, tensor: Any) -> bool:
        """Whether a tensor may be another one in another part."""
        return _reaches(tensor, lambda each: id(each) in self._batch or _keeps_to_itself(each), _is_size_of_a_sample)


def divisor_in_data(number: Any) -> Any:
    """What a sum has been divided by, in a traced number, if that depends on the data and on no variable; else None.

    Such a number is a mean over something that is counted, like the valid tokens of a batch.
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
    """The tensor that a single number comes from unchanged."""
    while number.op.type in _SAME_NUMBER and number.op.inputs[0].shape.rank == 0:
        number = number.op.inputs[0]
    return number


def _reaches(tensor: Any, found: Callable[[Any], bool], stops: Callable[[Any], bool] = lambda each: False) -> bool:
    """Whether a tensor is computed from one for which `found` holds; not looked for behind one where it `stops`."""
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
    """Whether the kernel has a state of its own, or asks somebody else, such as Python."""
    definition = tensor.op.op_def
    return definition is not None and definition.is_stateful and tensor.op.type not in _READS


def _is_size_of_a_sample(tensor: Any) -> bool:
    """Whether this is a dimension of some tensor, and not the first."""
    if tensor.op.type != "StridedSlice" or tensor.op.inputs[0].op.type != "Shape":
        return False
    begin, rank = tf.get_static_value(tensor.op.inputs[1]), tensor.op.inputs[0].op.inputs[0].shape.rank
    if begin is None or rank is None or not tensor.op.get_attr("shrink_axis_mask"):
        return False
    return bool(int(begin[0]) % rank > 0)
