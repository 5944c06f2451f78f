"""What a graph does to its inputs before any weights, by operations that are no layers: `inputs / 255.0`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.live.layer_facts import is_functional


def operations_before_weights(model: Any) -> tuple[str, ...]:
    """The kinds of these operations, each once, those of nested models included; none for a model without a graph."""
    return tuple(dict.fromkeys(_of(model)))


def _of(model: Any) -> Iterator[str]:
    if not is_functional(model):
        return
    operations = getattr(model, "operations", None)
    yield from _of_row(model.layers) if operations is None else _of_graph(model, operations)


def _of_row(layers: list[Any]) -> Iterator[str]:
    """Of a Sequential model, which holds layers only, some of them models."""
    for layer in layers:
        yield from _of(layer)
        if layer.weights:
            return


def _of_graph(model: Any, operations: list[Any]) -> Iterator[str]:
    """Of the operations of a graph, in an order in which each comes after those that it needs."""
    without_weights = {id(tensor) for tensor in keras.tree.flatten(model.inputs)}
    for operation in operations:
        calls = [
            call
            for call in KERAS.inbound_nodes.get(operation, ())
            if any(id(tensor) in without_weights for tensor in call.input_tensors)
        ]
        if not calls:
            continue
        if isinstance(operation, keras.layers.Layer):
            yield from _of(operation)
        else:
            yield type(operation).__name__
        if not getattr(operation, "weights", ()):
            without_weights |= {id(tensor) for call in calls for tensor in call.output_tensors}
