"""The limit of rounding: the largest relative difference that adding up in another order can make.

Runs in the script process.
"""

from __future__ import annotations

from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS

_RELATIVE = {"bfloat16": 0.1, "float16": 0.05, "float32": 1e-4, "float64": 1e-10}
"""The largest relative difference of a norm that counts as rounding; the least precise type first."""


def coarsest_type(model: Any) -> str:
    """The name of the least precise type that any layer computes in."""
    types = {str(getattr(layer, "compute_dtype", "float32")) for layer in KERAS.flatten_layers.call(model)}
    return next((name for name in _RELATIVE if name in types), "float32")


def largest(compute: str) -> float:
    """The largest relative difference that counts as rounding in this type, such as "float16"."""
    return _RELATIVE.get(compute, _RELATIVE["float32"])
