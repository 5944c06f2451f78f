"""What TensorFlow's kernels do with memory, by type of operation.

Source: tensorflow/core/kernels: `forward_input_or_allocate_output` in cwise_ops_common.h, relu_op.h, bias_op.cc,
aggregate_ops.cc, softmax_op.cc; `set_output` in identity_op.cc, reshape_op.h, shape_ops.h.
"""

from __future__ import annotations

from oomph.plan.program import Storage

HELD = frozenset({"Const", "VarHandleOp", "ReadVariableOp", "MutexV2", "StatefulRandomGetKeyCounter"})
"""Outputs that are a variable's own memory, or a constant that its kernel keeps."""

SHARED = frozenset(
    "Identity IdentityN Reshape Squeeze ExpandDims StopGradient PreventGradient Bitcast CheckNumerics EnsureShape "
    "Snapshot Print PrintV2".split()
)
"""Outputs that are an input under another name or shape."""

FORWARDED = frozenset(
    # unary
    "Abs Acos Asin Atan Ceil Cos Cosh Digamma Elu Erf Erfc Exp Expm1 Floor Inv Lgamma Log Log1p LogSoftmax "
    "LogicalNot Neg OnesLike Reciprocal Relu Relu6 LeakyRelu Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softmax "
    "Softplus Softsign Sqrt Square Tan Tanh ZerosLike "
    # binary, and n-ary
    "Add AddV2 AddN BiasAdd Atan2 Div DivNoNan FloorDiv FloorMod Maximum Minimum Mod Mul MulNoNan Pow RealDiv "
    "SquaredDifference Sub TruncateDiv Xdivy Xlogy LogicalAnd LogicalOr ClipByValue Select SelectV2 "
    # gradients
    "EluGrad InvGrad ReciprocalGrad Relu6Grad ReluGrad LeakyReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad "
    "SoftsignGrad SqrtGrad TanhGrad "
    # copies that share if they may
    "TensorListPushBack TensorListSetItem ScatterNd TensorScatterUpdate TensorScatterAdd".split()
)
"""Outputs that may lie in the memory of an input that nothing else needs."""

FUNCTION_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})

HOST = frozenset("Shape ShapeN Size Rank BroadcastGradientArgs ConcatOffset VariableShape".split())
"""Outputs of a few numbers, which on a GPU lie in the host's memory."""


def storage_of(kind: str) -> Storage:
    """Where the outputs of an operation of this type lie."""
    if kind in HELD:
        return Storage.HELD
    if kind in SHARED:
        return Storage.SHARED
    return Storage.FORWARDED if kind in FORWARDED else Storage.NEW
