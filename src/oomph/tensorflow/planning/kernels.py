"""Scratch memory and running time of TensorFlow's CPU kernels.

Source: tensorflow/core/kernels/conv_grad_filter_ops.cc and conv_grad_input_ops.cc, `col_buffer`: patches of as many
images as fit a cache of 30 MiB.
"""

from __future__ import annotations

import os
from typing import Any

_CACHE = 30 << 20
_LEAST_WORK = 256 << 10
"""An image whose matrices take more than this for each thread is multiplied alone."""
_PER_BYTE = 5
"""Floating-point operations in the time in which memory moves one byte; roughly, on a CPU."""


def workspace_of(operation: Any) -> int:
    """The bytes that the operation takes while it runs, besides its outputs."""
    if operation.type == "Conv2DBackpropFilter":
        return _patches(operation, operation.outputs[0].shape, operation.inputs[2].shape, one_by_one=False)
    if operation.type == "Conv2DBackpropInput":
        return _patches(operation, operation.inputs[1].shape, operation.inputs[2].shape, one_by_one=True)
    return 0


def _patches(operation: Any, kernel: Any, output: Any, one_by_one: bool) -> int:
    if not (kernel.is_fully_defined() and output.is_fully_defined()) or len(output) != 4:
        return 0
    width = operation.outputs[0].dtype.size
    rows, columns, depth, outputs = kernel.as_list()
    image, patch = output[1] * output[2], rows * columns * depth
    unit = image * patch + image * outputs + patch * outputs
    if one_by_one and unit // (os.cpu_count() or 1) >= _LEAST_WORK // width:
        return int(image * patch * width)
    return int(-(-(_CACHE // width) // unit) * image * patch * width)


def work_of(operation: Any) -> int:
    """How long the operation runs, in bytes that memory could move in that time."""
    moved = sum(_bytes(tensor) for tensor in [*operation.inputs, *operation.outputs])
    return moved + _multiplications(operation) // _PER_BYTE


def _multiplications(operation: Any) -> int:
    kind, inputs = operation.type, operation.inputs
    if kind in ("MatMul", "BatchMatMulV2", "BatchMatMulV3"):
        columns = inputs[0].shape[-2 if _is_transposed(operation) else -1] if len(inputs[0].shape) else 1
        return 2 * _count(operation.outputs[0]) * int(columns or 1)
    if kind == "Conv2D":
        return 2 * _count(operation.outputs[0]) * _per_output(inputs[1])
    if kind == "Conv2DBackpropInput":
        return 2 * _count(inputs[2]) * _per_output(inputs[1])
    if kind == "Conv2DBackpropFilter":
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
