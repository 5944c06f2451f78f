"""Turns a model's layers, and its outputs with their losses, metrics and layers, into facts."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import replaced
from oomph.preflight.facts.model import LayerFacts, Loss, MetricFacts, Output, Shape, Weights
from oomph.preflight.live.frozen_random import drawn_in
from oomph.preflight.live.plain_values import float_of, is_of_keras, plain, settings_of, snake_case

_WITH_VOCABULARY = ("TextVectorization", "StringLookup", "IntegerLookup")
_MOST_NUMBERS = 50_000_000
"""The maximum number of weight values to examine in a model."""
_ONLY_SHAPE = (
    "Reshape", "Flatten", "Permute", "Identity", "Cropping1D", "Cropping2D", "RepeatVector", "UpSampling2D",
    "ZeroPadding2D", "Squeeze", "ExpandDims", "GetItem",
)  # fmt: skip
"""Layers and operations that do not change values."""
_LAYERS_OF_ACTIVATIONS = {
    "Softmax": "softmax", "ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "PReLU": "prelu",
    "Sigmoid": "sigmoid", "Tanh": "tanh",
}  # fmt: skip
_LINEAR = ("Dense", "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose",
           "EinsumDense", "SeparableConv2D", "DepthwiseConv2D")  # fmt: skip
_UNBOUNDED = (*_LINEAR, "BatchNormalization", "LayerNormalization", "Add", "Subtract", "Dot", "Embedding")


def layers_of(model: Any) -> tuple[LayerFacts, ...]:
    """Return every layer, including nested ones, in graph order if possible and otherwise in order of creation."""
    budget = [_MOST_NUMBERS]
    return tuple(layer_facts(layer, budget, is_on_path) for layer, is_on_path in _layers(model, set()))


def layer_facts(layer: Any, budget: list[int] | None = None, is_on_path: bool = True) -> LayerFacts:
    """Return the facts about one layer."""
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
    """Yield the attributes of a custom layer that contain trainable tf.Variables, which Keras 3 does not train."""
    if is_of_keras(type(layer)):
        return
    trained = {id(variable.value) for variable in layer.trainable_variables}
    for name, value in vars(layer).items():
        held = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(each, tf.Variable) and _is_weight(each) and id(each) not in trained for each in held):
            yield name


def _is_weight(variable: Any) -> bool:
    """True if the variable is trainable and not just a counter."""
    return bool(variable.trainable and variable.dtype.is_floating and variable.shape.rank)


def shape_of(tensor: Any) -> Shape | None:
    """Return the shape of a tensor or a specification, or None if its rank is unknown."""
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
    """True if the model is a graph of layers, as a Sequential model is once it has been built."""
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
    """True if the layer belongs to a graph, receives a mask, and does not pass it on."""
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
    """True if a layer is untrained: biases and moving means are 0, moving variances 1. None if it has none of these."""
    if not is_of_keras(type(layer)):
        return None
    created = {"bias": 0.0, "moving_mean": 0.0, "moving_variance": 1.0}
    known = [(getattr(layer, name, None), value) for name, value in created.items()]
    found = [bool(np.all(np.asarray(array) == value)) for array, value in known if isinstance(array, keras.Variable)]
    return all(found) if found else None


def outputs_of(model: Any) -> tuple[Output, ...]:
    """Return the outputs. A model without a graph has one output per loss, of unknown shape."""
    tensors = _tensors(model)
    names = _names(model, tensors)
    losses = losses_by_output(model)
    weights = _by_output(KERAS.user_loss_weights.get(KERAS.compile_loss.get(model)), names)
    metrics = [_metrics(KERAS.compile_metrics.get(model), names, index) for index in range(len(names))]
    made = [made_by(tensor) for tensor in tensors] or [(None, "")] * len(names)
    return tuple(
        Output(
            name=name,
            shape=shape_of(tensors[index]) if tensors else None,
            dtype=str(getattr(tensors[index], "dtype", "float32")) if tensors else "float32",
            layer=made[index][0],
            activation=made[index][1],
            loss=loss_facts(losses.get(index), _weight(weights.get(index))),
            metrics=metrics[index],
        )
        for index, name in enumerate(names)
    )


def losses_by_output(model: Any) -> dict[int, Any]:
    """Return the loss passed to compile for each output."""
    return _by_output(KERAS.user_loss.get(KERAS.compile_loss.get(model)), _names(model, _tensors(model)))


def _tensors(model: Any) -> list[Any]:
    return list(keras.tree.flatten(model.outputs)) if is_functional(model) else []


def _names(model: Any, tensors: list[Any]) -> list[str]:
    found = getattr(model, "output_names", None)
    if tensors and found and len(found) == len(tensors):
        return [str(name) for name in found]
    if tensors:
        return [f"output_{index + 1}" for index in range(len(tensors))]
    given = KERAS.user_loss.get(KERAS.compile_loss.get(model))
    if isinstance(given, Mapping):
        return [str(name) for name in given]
    return [f"output_{index + 1}" for index in range(len(given) if isinstance(given, (list, tuple)) else 1)]


def _by_output(given: Any, names: list[str]) -> dict[int, Any]:
    """Map a compile argument to outputs: a single value for all, a list by order, or a dictionary by name."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {names.index(name): each for name, each in given.items() if name in names}
    if isinstance(given, (list, tuple)):
        return dict(enumerate(given))
    return dict.fromkeys(range(len(names)), given)


def loss_facts(given: Any, weight: float = 1.0) -> Loss | None:
    """Return the facts about a loss in any form that compile accepts: a name, a function or an object."""
    if given is None:
        return None
    found = given
    if isinstance(given, str):
        try:
            found = keras.losses.get(given)
        except ValueError:
            return Loss(snake_case(given), weight=weight)
    if isinstance(found, keras.losses.Loss):
        settings = {**settings_of(found), **plain(KERAS.function_arguments.get(found) or {})}
        kind = snake_case(type(found).__name__)
        if kind == "loss_function_wrapper":
            kind, found = _function_name(getattr(found, "fn", None)), getattr(found, "fn", found)
        is_keras = is_of_keras(type(found)) if not callable(getattr(found, "__code__", None)) else is_of_keras(found)
    else:
        function = found.func if isinstance(found, functools.partial) else found
        settings = plain(found.keywords) if isinstance(found, functools.partial) else {}
        kind, is_keras = _function_name(function), is_of_keras(function)
    return Loss(_ALIASES.get(kind, kind), is_keras, bool(settings.get("from_logits")), settings, weight)


_ALIASES = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "mape": "mean_absolute_percentage_error",
            "msle": "mean_squared_logarithmic_error", "kld": "kl_divergence", "bce": "binary_crossentropy",
            "cosine": "cosine_similarity", "huber_loss": "huber", "logcosh": "log_cosh"}  # fmt: skip


def _function_name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or snake_case(type(function).__name__))


def _weight(given: Any) -> float:
    found = float_of(given)
    return 1.0 if given is None or found is None else found


def _metrics(compiled: Any, names: list[str], index: int) -> tuple[MetricFacts, ...]:
    found: list[MetricFacts] = []
    for row in (KERAS.user_metrics, KERAS.user_weighted_metrics):
        given = row.get(compiled)
        if isinstance(given, Mapping):
            given = given.get(names[index])
        elif isinstance(given, (list, tuple)) and any(isinstance(each, (list, tuple)) for each in given):
            given = given[index] if index < len(given) else None
        elif len(names) > 1 and isinstance(given, (list, tuple)) and len(given) == len(names):
            given = given[index]
        each = given if isinstance(given, (list, tuple)) else [given]
        found += [metric_facts(metric) for metric in each if metric is not None]
    return tuple(found)


def metric_facts(given: Any) -> MetricFacts:
    """Return the facts about a metric in any form that compile accepts: a name, a function or an object."""
    if isinstance(given, str):
        return MetricFacts(given, snake_case(given))
    if not isinstance(given, keras.metrics.Metric):
        name = _function_name(given)
        return MetricFacts(name, name, is_of_keras(given), has_direction=False)
    kind, has_direction = snake_case(type(given).__name__), KERAS.metric_direction.on(given)
    if kind == "mean_metric_wrapper":
        function = KERAS.wrapped_metric.get(given)
        return MetricFacts(
            str(given.name), _function_name(function), is_of_keras(function), has_direction=has_direction
        )
    return MetricFacts(str(given.name), kind, is_of_keras(type(given)), settings_of(given), has_direction)


def made_by(tensor: Any) -> tuple[LayerFacts | None, str]:
    """Return the layer that computed a tensor's values, and the last activation applied to them."""
    for _ in range(100):
        history = KERAS.history_of_tensor.get(tensor)
        operation = getattr(history, "operation", None)
        if operation is None:
            return None, ""
        kind = type(operation).__name__
        inner = _inner_output(operation, history)
        if inner is not None:
            tensor = inner
            continue
        before = _input_of(operation, history)
        is_identity = kind == "Activation" and activation_of(operation) == "linear"
        if (kind in _ONLY_SHAPE or is_identity) and before is not None:
            tensor = before
            continue
        if kind == "TimeDistributed" and hasattr(operation, "layer"):
            operation = operation.layer
        facts = layer_facts(operation) if hasattr(operation, "weights") else None
        return facts, activation_of(operation)
    return None, ""


def _inner_output(operation: Any, history: Any) -> Any:
    """Return the tensor inside a nested model that becomes this output, or None if there is no nested model."""
    if not is_functional(operation):
        return None
    tensors = list(keras.tree.flatten(operation.outputs))
    index = getattr(history, "tensor_index", 0)
    return tensors[index] if index < len(tensors) else None


def _input_of(operation: Any, history: Any) -> Any:
    nodes = KERAS.inbound_nodes.get(operation, ())
    index = getattr(history, "node_index", 0)
    if index >= len(nodes):
        return None
    tensors = list(getattr(nodes[index], "input_tensors", ()))
    return tensors[0] if len(tensors) == 1 else None


def activation_of(operation: Any) -> str:
    kind = type(operation).__name__
    if kind in _LAYERS_OF_ACTIVATIONS:
        return _LAYERS_OF_ACTIVATIONS[kind]
    if not is_of_keras(type(operation)):
        return ""
    activation = getattr(operation, "activation", None)
    if callable(activation):
        name = str(getattr(activation, "__name__", type(activation).__name__))
        return name if is_of_keras(activation) else ""
    return "linear" if kind in _UNBOUNDED else ""


def last_layers(model: Any, x: Any) -> list[Any]:
    """Return the innermost layer that produces each output, or None for an output that no layer produces."""
    made: dict[int, Any] = {}
    kept: list[Any] = []
    original = keras.layers.Layer.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        for tensor in keras.tree.flatten(result):
            if tensor is not None and id(tensor) not in made:
                made[id(tensor)] = self
                kept.append(tensor)  # so that no later tensor reuses its id
        return result

    with replaced(keras.layers.Layer, "__call__", call):
        outputs = keras.tree.flatten(model(x, training=False))
    return [None if (layer := made.get(id(output))) is model else layer for output in outputs]
