"""What may bring inputs to the scale of the weights, beside layers made for it."""

from __future__ import annotations

from oomph.preflight.facts.model import Model

_ARITHMETIC = (
    "TrueDivide", "Divide", "DivideNoNan", "FloorDivide", "Multiply", "Subtract", "Add", "Mod", "Clip", "Log", "Log1p",
    "Log2", "Log10", "Sqrt", "Rsqrt", "Tanh", "Sigmoid", "Arctan", "Arcsinh", "Normalize", "Where",
)  # fmt: skip
"""Operations of keras.ops, by the names of their classes."""


def computes_first(model: Model) -> bool:
    """Whether the graph changes the values of its inputs by arithmetic before any weights: `inputs / 255.0`."""
    return any(kind in _ARITHMETIC for kind in model.operations)
