"""Finds the model that a custom loop trains, by the variables that its optimizer updates."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS


def model_of(variables: Sequence[Any]) -> Any:
    """The smallest model that holds all these variables as trainable ones; None if no living model does."""
    wanted = {_identity(variable) for variable in variables}
    cls = KERAS.trainer.value()
    found: list[tuple[int, int, Any]] = []
    for value in gc.get_objects():
        if issubclass(type(value), cls):  # isinstance would ask proxies, which may fail
            held = {_identity(variable) for variable in getattr(value, "trainable_variables", ())}
            if wanted and wanted <= held:
                found.append((len(held), len(found), value))
    return min(found)[2] if found else None


def _identity(variable: Any) -> int:
    """The same for a variable of Keras and the variable of TensorFlow in it."""
    return id(KERAS.variable_value.get(variable, variable))
