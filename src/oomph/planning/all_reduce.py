"""The memory for adding up gradients of several replicas in a traced step: packed, reduced, taken apart. Pure.

Source: `CollectiveAllReduce` and `NcclAllReduce` in tensorflow/python/distribute/cross_device_ops.py: all gradients in
one tensor, unless a size of packs is given.
"""

from __future__ import annotations

from oomph.planning.program import Program

REDUCTIONS = frozenset({"CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3", "NcclAllReduce"})
ARRIVED = "_Recv"
"""The type of the operation that receives a tensor from another replica."""
_JOINS, _PARTS, _RENAMES = ("Concat", "ConcatV2"), ("Split", "SplitV"), ("Identity", "IdentityN", "Reshape")


def exchanged(program: Program) -> frozenset[int]:
    """The indices of the tensors that hold packed or reduced gradients, or gradients from other replicas."""
    found: set[int] = set()
    makers = program.makers
    for operation in program.operations:
        if operation.kind == ARRIVED:
            found.update(operation.outputs)
        elif operation.kind in REDUCTIONS:
            found.update(operation.outputs)
            joined = [
                tensor for tensor in operation.inputs
                if tensor in makers and program.operations[makers[tensor]].kind in _JOINS
            ]  # fmt: skip
            found.update(joined)
        elif operation.kind in (*_PARTS, *_RENAMES) and found.intersection(operation.inputs):
            found.update(operation.outputs)
    return frozenset(found)
