"""The optimizers of a model, and which weights each of them trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers of a model: the one it was compiled with, and those in its attributes."""
    found: list[Any] = []
    kind = KERAS.optimizer.value()
    for value in [getattr(model, "optimizer", None), *vars(model).values()]:  # one of a custom loop is not compiled
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, kind) and not any(one is known for known in found):
                found.append(one)
    return found


def weights_of_each(model: Any) -> list[list[int]]:
    """The indices of each optimizer's weights in the model's variables; −1 for a weight not among them."""
    places = {id(variable): place for place, variable in enumerate(model.variables)}
    return [
        [places.get(id(weight), -1) for weight in KERAS.optimizer_variables.of(one)] for one in optimizers_of(model)
    ]


def build_as_before(model: Any, weights: Sequence[Sequence[int]]) -> None:
    """Build the optimizers that have no variables yet, for the weights that `weights_of_each` returned.

    Without a trace, it is unknown before the first step which optimizer trains what.
    """
    variables = model.variables
    for optimizer, own in zip(optimizers_of(model), weights, strict=False):
        if not optimizer.built and own and min(own) >= 0 and max(own) < len(variables):
            with model.distribute_strategy.scope():
                optimizer.build([variables[place] for place in own])
