"""The layers of a model as facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.model import LayerFacts, Shape, Weights
from oomph.preflight.live.frozen_random import drawn_in
from oomph.preflight.live.plain_values import is_of_keras, settings_of

_WITH_VOCABULARY = ("TextVectorization", "StringLookup", "IntegerLookup")
_MOST_NUMBERS = 50_000_000
"""The most weight values of a model to look at."""


def layers_of(model: Any) -> tuple[LayerFacts, ...]:
    """Every layer, including those of nested models, in the order of the graph or else of creation."""
    budget = [_MOST_NUMBERS]
    return tuple(layer_facts(layer, budget, is_on_path) for layer, is_on_path in _layers(model, set()))


def layer_facts(layer: Any, budget: list[int] | None = None, is_on_path: bool = True) -> LayerFacts:
    """The facts about one layer."""
    return LayerFacts(
        name=str(layer.name),
        kind=type(layer).__name__,
        is_keras=is_of_keras(type(layer)),
        settings=_settings(layer),
        input_shapes=_input_shapes(layer),
        output_shape=shape_of(_output(layer)),
        compute_dtype=str(getattr(layer, "compute_dtype", "float32")),
        variable_dtype=str(getattr(layer, "variable_dtype", "float32")),
        trainable=bool(getattr(layer, "trainable", True)),
        weights=_weights(layer, budget if budget is not None else [_MOST_NUMBERS]),
        feeds=tuple(_feeds(layer)),
        untracked=tuple(_untracked(layer)),
        frozen_random="" if is_of_keras(type(layer)) else drawn_in(type(layer).call),
        loses_mask=_loses_mask(layer),
        is_on_path=is_on_path,
    )


def _untracked(layer: Any) -> Iterator[str]:
    """The trainable tf.Variables in the attributes of a layer of the user's own; Keras 3 trains only its own."""
    if is_of_keras(type(layer)):
        return
    trained = {id(variable.value) for variable in layer.trainable_variables}
    for name, value in vars(layer).items():
        held = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(each, tf.Variable) and _is_weight(each) and id(each) not in trained for each in held):
            yield name


def _is_weight(variable: Any) -> bool:
    """True if the variable is trainable, and not just a counter."""
    return bool(variable.trainable and variable.dtype.is_floating and variable.shape.rank)


def shape_of(tensor: Any) -> Shape | None:
    """The shape of a tensor or a specification; None if its rank is unknown."""
    shape = getattr(tensor, "shape", None)
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    try:
        return tuple(None if size is None else int(size) for size in shape)
    except (TypeError, ValueError):
        return None


def _layers(model: Any, seen: set[int]) -> Iterator[tuple[Any, bool]]:
    is_graph = is_functional(model)
    for layer in getattr(model, "layers", ()):
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if getattr(layer, "layers", None) and is_of_keras(type(layer)) and hasattr(layer, "outputs"):
            yield from _layers(layer, seen)
            continue
        yield layer, is_graph
        for inner in KERAS.flatten_layers.of(layer)(include_self=False, recursive=True):
            if id(inner) not in seen:
                seen.add(id(inner))
                yield inner, False


def is_functional(model: Any) -> bool:
    """True if the model is a graph of layers, as a Sequential one is once it is built."""
    return bool(getattr(model, "inputs", None)) and bool(getattr(model, "outputs", None))


def _settings(layer: Any) -> Mapping[str, Any]:
    settings = settings_of(layer)
    activation = getattr(layer, "activation", None)
    if callable(activation):
        settings["activation"] = str(getattr(activation, "__name__", type(activation).__name__))
    if type(layer).__name__ in _WITH_VOCABULARY and is_of_keras(type(layer)):
        settings["vocabulary_size"] = int(layer.vocabulary_size())
    if isinstance(layer, keras.layers.Normalization) and layer.built and layer.input_mean is None:
        settings["is_adapted"] = bool(np.any(np.asarray(layer.adapt_mean) != 0))
    return settings


def _input_shapes(layer: Any) -> tuple[Shape, ...]:
    try:
        given = layer.input
    except Exception:  # it was never called, or more than once
        return ()
    tensors: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given]
    return tuple(shape for tensor in tensors if (shape := shape_of(tensor)) is not None)


def _loses_mask(layer: Any) -> bool:
    """True for a layer of a graph that gets a mask and hands none on."""
    try:
        given, made = keras.tree.flatten(layer.input), keras.tree.flatten(layer.output)
    except Exception:  # it was never called, or more than once
        return False
    masks = [[KERAS.mask_of_tensor.get(tensor) is not None for tensor in tensors] for tensors in (given, made)]
    return bool(given) and masks[0][0] and not any(masks[1])


def _output(layer: Any) -> Any:
    try:
        return layer.output
    except Exception:  # it was never called, or more than once
        return None


def _feeds(layer: Any) -> Iterator[str]:
    for node in KERAS.outbound_nodes.get(layer, ()):
        name = getattr(getattr(node, "operation", None), "name", "")
        if name:
            yield str(name)


def _weights(layer: Any, budget: list[int]) -> Weights:
    variables = [*KERAS.trainable_variables.get(layer, ()), *KERAS.non_trainable_variables.get(layer, ())]
    trained = {id(variable) for variable in getattr(layer, "trainable_variables", ())}
    sizes = [int(np.prod(variable.shape)) for variable in variables]
    trainable = sum(size for size, variable in zip(sizes, variables, strict=True) if id(variable) in trained)
    if sum(sizes) > budget[0]:
        return Weights(trainable, sum(sizes) - trainable)
    budget[0] -= sum(sizes)
    arrays = [np.asarray(variable) for variable in variables if "float" in str(variable.dtype)]
    arrays = [array.astype(np.float32) if array.dtype.itemsize < 4 else array for array in arrays]
    not_finite = sum(int(array.size - np.isfinite(array).sum()) for array in arrays)
    kernels = [array for array in arrays if array.ndim >= 2 and array.size > 1]
    is_constant = bool(kernels) and all(bool(np.all(array == array.flat[0])) for array in kernels)
    return Weights(trainable, sum(sizes) - trainable, not_finite, is_constant, _is_fresh(layer))


def _is_fresh(layer: Any) -> bool | None:
    """True if a layer is untrained: biases and moving means start at 0, moving variances at 1."""
    if not is_of_keras(type(layer)):
        return None
    created = {"bias": 0.0, "moving_mean": 0.0, "moving_variance": 1.0}
    known = [(getattr(layer, name, None), value) for name, value in created.items()]
    found = [bool(np.all(np.asarray(array) == value)) for array, value in known if isinstance(array, keras.Variable)]
    return all(found) if found else None
