"""Selects the dialect of an object."""

from __future__ import annotations

from typing import Any

from oomph.keras_bridge.dialects.dialect import Dialect
from oomph.keras_bridge.dialects.of_keras3 import KERAS_3


def dialect_of(thing: Any) -> Dialect:
    """Return the dialect of a model, layer, optimizer or metric; that of Keras 3 for anything else."""
    return KERAS_3
