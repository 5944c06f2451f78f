"""The layers that make the outputs of a model without a graph, seen by calling it."""

from __future__ import annotations

from typing import Any

import keras

from oomph.keras_bridge.runtime.patching import replaced


def last_layers(model: Any, x: Any) -> list[Any]:
    """For each output the innermost layer whose result it is; None where it is the result of something else."""
    made: dict[int, Any] = {}
    kept: list[Any] = []
    original = keras.layers.Layer.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        for tensor in keras.tree.flatten(result):
            if tensor is not None and id(tensor) not in made:
                made[id(tensor)] = self
                kept.append(tensor)  # so that no later tensor gets its id
        return result

    with replaced(keras.layers.Layer, "__call__", call):
        outputs = keras.tree.flatten(model(x, training=False))
    return [None if (layer := made.get(id(output))) is model else layer for output in outputs]
