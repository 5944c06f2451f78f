"""Memory use of TensorFlow's kernels, by type of operation.

Source: tensorflow/core/kernels: `forward_input_or_allocate_output` in cwise_ops_common.h, relu_op.h, bias_op.cc,
aggregate_ops.cc, collective_ops.cc, softmax_op.cc, xent_op.cc, sparse_xent_op.cc; `set_output` in identity_op.cc,
reshape_op.h, shape_ops.h.
"""

from __future__ import annotations

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
"""Types of operations whose outputs may lie in the memory of an input that nothing else needs."""

FUNCTION_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
GATHERS = frozenset({"CollectiveGather", "CollectiveGatherV2"})
"""Types of operations that join one tensor of each replica into a single tensor."""
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})

HOST = frozenset({"BroadcastGradientArgs", "ConcatOffset", "Rank", "Shape", "ShapeN", "Size", "VariableShape"})
"""Types of operations whose outputs are only a few numbers."""


def storage_of(kind: str) -> Storage:
    """The storage of the outputs of this type of operation."""
    if kind in HELD:
        return Storage.HELD
    if kind in SHARED:
        return Storage.SHARED
    return Storage.FORWARDED if kind in FORWARDED else Storage.NEW
