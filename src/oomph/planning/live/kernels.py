"""Predicts the scratch memory and running time of TensorFlow's CPU kernels.

Source: tensorflow/core/kernels/conv_grad_filter_ops.cc, conv_grad_input_ops.cc and conv_grad_ops_3d.cc, `col_buffer`:
patches of as many images as fit into a cache, which is assumed to be 30 MiB.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

from oomph.planning.program import Storage

HELD = frozenset({"Const", "VarHandleOp", "ReadVariableOp", "MutexV2", "StatefulRandomGetKeyCounter"})
"""Types of operations whose outputs are a variable's own memory, or a constant that the kernel keeps."""

SHARED = frozenset(
    {
        "Bitcast", "CheckNumerics", "EnsureShape", "ExpandDims", "Identity", "IdentityN", "PreventGradient", "Reshape",
        "Snapshot", "Squeeze", "StopGradient",
    }
)  # fmt: skip
"""Types of operations whose outputs are an input under another name or shape."""

_UNARY = {
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Digamma", "Elu", "Erf", "Erfc", "Exp", "Expm1", "Floor",
    "Inv", "LeakyRelu", "Lgamma", "Log", "Log1p", "LogSoftmax", "LogicalNot", "Neg", "OnesLike", "Reciprocal", "Relu",
    "Relu6", "Rint", "Round", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign",
    "Sqrt", "Square", "Tan", "Tanh", "ZerosLike",
}  # fmt: skip
_OF_SEVERAL = {
    "Add", "AddN", "AddV2", "Atan2", "BiasAdd", "ClipByValue", "Div", "DivNoNan", "FloorDiv", "FloorMod", "LogicalAnd",
    "LogicalOr", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan", "Pow", "RealDiv", "Select", "SelectV2",
    "SquaredDifference", "Sub", "TruncateDiv", "Xdivy", "Xlogy",
}  # fmt: skip
_GRADIENTS = {
    "EluGrad", "InvGrad", "LeakyReluGrad", "ReciprocalGrad", "Relu6Grad", "ReluGrad", "RsqrtGrad", "SeluGrad",
    "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "TanhGrad",
}  # fmt: skip
_LOSSES = {"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"}
_REDUCTIONS = {"CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3"}
_COPIES = {"ScatterNd", "TensorListPushBack", "TensorListSetItem", "TensorScatterAdd", "TensorScatterUpdate"}
FORWARDED = frozenset(_UNARY | _OF_SEVERAL | _GRADIENTS | _LOSSES | _REDUCTIONS | _COPIES)
"""Types of operations whose outputs may reuse the memory of an input that nothing else needs."""

FUNCTION_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
GATHERS = frozenset({"CollectiveGather", "CollectiveGatherV2"})
"""Types of operations that join one tensor from each replica into a single tensor."""
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})

HOST = frozenset({"BroadcastGradientArgs", "ConcatOffset", "Rank", "Shape", "ShapeN", "Size", "VariableShape"})
"""Types of operations whose outputs are just a few numbers."""
_CACHE = 30 << 20
_LEAST_WORK = 256 << 10
"""The size in bytes per thread of an image's matrices above which images are multiplied one by one."""
_MOST_TIMES = 25
"""A 3D convolution does not create patches that are this many times as large as its tensors.

Called `kMaxTempAllocationOverhead` in the source.
"""
_PER_BYTE = 5
"""The number of floating-point operations that a CPU performs while moving one byte; a rough estimate."""
_PER_PATCH = {
    "Conv2DBackpropFilter": 14.0,
    "Conv3DBackpropFilterV2": 14.0,
    "Conv2DBackpropInput": 1.5,
    "Conv3DBackpropInputV2": 1.5,
}
"""The cost of copying one byte of a patch, in bytes of plain memory traffic.

Measured on convolutions of seven shapes, on two cores (TensorFlow 2.21).
"""
_SLOWER = {"BiasAddGrad": 2, "Softmax": 4, "Sum": 4, "Transpose": 8}
"""The cost of an operation relative to a plain copy of the same bytes; measured in the same run."""


def storage_of(kind: str) -> Storage:
    """Return the storage of outputs for this type of operation."""
    if kind in HELD:
        return Storage.HELD
    if kind in SHARED:
        return Storage.SHARED
    return Storage.FORWARDED if kind in FORWARDED else Storage.NEW


def workspace_of(operation: Any) -> int:
    """Return the size in bytes of the operation's scratch memory while it runs, excluding its outputs."""
    kind, inputs = operation.type, operation.inputs
    if kind == "Conv2DBackpropFilter":
        return _Patches.of(operation, operation.outputs[0], inputs[2]).bytes(one_by_one=False)
    if kind == "Conv2DBackpropInput":
        return _Patches.of(operation, inputs[1], inputs[2]).bytes(one_by_one=None)
    if kind == "Conv3DBackpropFilterV2":
        return _of_a_volume(operation, operation.outputs[0], inputs[0])
    if kind == "Conv3DBackpropInputV2":
        return _of_a_volume(operation, inputs[1], operation.outputs[0])
    return 0


class _Patches(NamedTuple):
    """The patches of one image as a matrix, in elements."""

    image: int
    """The number of rows: pixels of the output."""
    patch: int
    """The number of columns: pixels of the kernel times channels."""
    outputs: int
    width: int
    """The size in bytes of one element."""

    @classmethod
    def of(cls, operation: Any, kernel: Any, gradient: Any) -> _Patches:
        """Return the patches for the shapes of a kernel (or its gradient) and the output's gradient; 0 if unknown."""
        width = operation.outputs[0].dtype.size
        if not (kernel.shape.is_fully_defined() and gradient.shape.is_fully_defined()):
            return cls(0, 0, 0, width)
        *patch, outputs = kernel.shape.as_list()
        return cls(math.prod(gradient.shape.as_list()[1:-1]), math.prod(patch), outputs, width)

    def bytes(self, one_by_one: bool | None) -> int:
        """Return the size in bytes of the patches of one image, or of as many images as fit into the cache.

        If `one_by_one` is None, a single image counts if it keeps all threads busy.
        """
        unit = self.image * self.patch + self.image * self.outputs + self.patch * self.outputs
        if one_by_one is None:
            one_by_one = unit // (os.cpu_count() or 1) >= _LEAST_WORK // self.width
        images = 1 if one_by_one or not unit else -(-(_CACHE // self.width) // unit)
        return images * self.image * self.patch * self.width


def _of_a_volume(operation: Any, kernel: Any, volumes: Any) -> int:
    """Return the size in bytes of a 3D convolution's patches; 0 if they would be much larger than its tensors."""
    gradient = operation.inputs[2]
    size = _Patches.of(operation, kernel, gradient).bytes(one_by_one=gradient.shape[0] == 1)
    given = sum(_bytes(tensor) for tensor in (kernel, gradient, volumes))
    return 0 if size // max(1, given) > _MOST_TIMES else size


def work_of(operation: Any) -> int:
    """Return the operation's running time, expressed as the number of bytes that memory could move in that time."""
    moved = sum(_bytes(tensor) for tensor in [*operation.inputs, *operation.outputs])
    return moved * _SLOWER.get(operation.type, 1) + _multiplications(operation) // _PER_BYTE + _patching(operation)


def _patching(operation: Any) -> int:
    per_byte = _PER_PATCH.get(operation.type)
    if per_byte is None:
        return 0
    kernel = operation.outputs[0] if "Filter" in operation.type else operation.inputs[1]
    gradient = operation.inputs[2]
    if not (kernel.shape.is_fully_defined() and gradient.shape.is_fully_defined()):
        return 0
    pixels, patch = math.prod(gradient.shape.as_list()[:-1]), math.prod(kernel.shape.as_list()[:-1])
    work: float = per_byte * pixels * patch * operation.outputs[0].dtype.size
    return round(work)


def _multiplications(operation: Any) -> int:
    kind, inputs = operation.type, operation.inputs
    if kind in ("MatMul", "BatchMatMulV2", "BatchMatMulV3"):
        columns = inputs[0].shape[-2 if _is_transposed(operation) else -1] if len(inputs[0].shape) else 1
        return 2 * _count(operation.outputs[0]) * int(columns or 1)
    if kind in ("Conv2D", "Conv3D"):
        return 2 * _count(operation.outputs[0]) * _per_output(inputs[1])
    if kind in ("Conv2DBackpropInput", "Conv3DBackpropInputV2"):
        return 2 * _count(inputs[2]) * _per_output(inputs[1])
    if kind in ("Conv2DBackpropFilter", "Conv3DBackpropFilterV2"):
        return 2 * _count(inputs[2]) * _per_output(operation.outputs[0])
    return 0


def _is_transposed(operation: Any) -> bool:
    return bool(operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x"))


def _per_output(kernel: Any) -> int:
    channels = kernel.shape[-1] or 1
    return _count(kernel) // int(channels)


def _count(tensor: Any) -> int:
    return int(tensor.shape.num_elements() or 0)


def _bytes(tensor: Any) -> int:
    return _count(tensor) * int(tensor.dtype.size or 1)
