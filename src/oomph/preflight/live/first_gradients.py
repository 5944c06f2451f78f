"""The gradients of the first step of a compiled model, and what its layers do in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.trial import Activity, Gradient, InputRange
from oomph.preflight.live.plain_values import float_of, is_of_keras


def first_gradients(model: Any, x: Any, y: Any, weight: Any) -> tuple[list[Gradient], Seen, float]:
    """Gradients of the first step; empty for a model with its own train_step, which may mean anything."""
    if type(model).train_step is not KERAS.trainer.value().train_step:
        return [], Seen(), 0.0
    seen = Seen()
    try:
        x, y, weight = (keras.tree.map_structure(_tensor, part) for part in (x, y, weight))
        with observed(model, seen), tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=True)
        added = sum(float_of(each) or 0.0 for each in model.losses)
        variables = list(model.trainable_variables)
        found = tape.gradient(loss, [variable.value for variable in variables])
    except Exception:  # the step will say why
        return [], seen, 0.0
    owners = {id(variable): layer.name for layer in model.layers for variable in layer.trainable_variables}
    return [
        _gradient(variable, gradient, owners.get(id(variable), ""))
        for variable, gradient in zip(variables, found, strict=True)
    ], seen, added  # fmt: skip


def _tensor(value: Any) -> Any:
    if value is None or isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        return value
    tensor = tf.convert_to_tensor(value)
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype == tf.float64 else tensor


def _gradient(variable: Any, gradient: Any, layer: str) -> Gradient:
    size = float(np.linalg.norm(np.asarray(variable, np.float64)))
    if gradient is None:
        return Gradient(variable.path, layer, True, weight_norm=size)
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    array = np.asarray(values, np.float64)
    return Gradient(variable.path, layer, False, float(np.linalg.norm(array)), size, bool(np.isfinite(array).all()))


_OF_RELU = ("relu", "relu6")
_SATURATING = {"sigmoid": (0.0, 1.0), "hard_sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
_NEAR = 1e-3
_BY_RANGE = (
    "RandomBrightness", "RandomColorJitter", "RandAugment", "AugMix", "Equalization", "Posterization",
    "RandomPosterization", "RandomInvert", "Solarization", "CLAHE",
)  # fmt: skip
"""Layers whose effect scales with their configured range; others only clip to it."""


@dataclass
class Seen:
    """Observations of the layers in one forward pass."""

    activities: list[Activity] = field(default_factory=list)
    ranges: list[InputRange] = field(default_factory=list)


@contextmanager
def observed(model: Any, seen: Seen) -> Iterator[None]:
    """Within the block, note the outputs of layers with activations, and the inputs of layers with a set range."""
    changed = []
    for layer in KERAS.flatten_layers.of(model)(include_self=False):
        name = _activation(layer)
        if name in _OF_RELU or name in _SATURATING or _told_range(layer) is not None:

            def call(
                *args: Any, _original: Any = layer.call, _layer: Any = layer, _name: str = name, **kwargs: Any
            ) -> Any:
                _note_input(_layer, args, seen.ranges)
                output = _original(*args, **kwargs)
                _note(_layer.name, _name, output, seen.activities)
                return output

            object.__setattr__(layer, "call", call)
            changed.append(layer)
    try:
        yield
    finally:
        for layer in changed:
            object.__delattr__(layer, "call")


def _activation(layer: Any) -> str:
    if type(layer).__name__ == "ReLU" and is_of_keras(type(layer)):
        return "relu"
    return str(getattr(getattr(layer, "activation", None), "__name__", ""))


def _told_range(layer: Any) -> tuple[float, float] | None:
    """The pixel range configured for one of Keras' layers; None if it needs none."""
    told = getattr(layer, "value_range", None)
    if (
        not is_of_keras(type(layer))
        or type(layer).__name__ not in _BY_RANGE
        or not isinstance(told, (list, tuple))
        or len(told) != 2
    ):
        return None
    return float(told[0]), float(told[1])


def _note_input(layer: Any, args: Sequence[Any], found: list[InputRange]) -> None:
    told = _told_range(layer)
    if told is None or not args or not hasattr(args[0], "shape"):
        return
    try:
        array = np.asarray(args[0], np.float32)
    except Exception:  # traced
        return
    if array.size:
        found.append(InputRange(str(layer.name), float(array.min()), float(array.max()), told))


def _note(name: str, activation: str, output: Any, found: list[Activity]) -> None:
    try:
        array = np.asarray(output, np.float32)
    except Exception:  # traced, or not a tensor
        return
    if array.ndim < 2 or not array.size:
        return
    columns = array.reshape(-1, array.shape[-1])
    dead = float(np.mean((columns == 0).all(axis=0))) if activation in _OF_RELU else 0.0
    saturated = 0.0
    if activation in _SATURATING:
        low, high = _SATURATING[activation]
        saturated = float(np.mean((array < low + _NEAR * (high - low)) | (array > high - _NEAR * (high - low))))
    found.append(Activity(name, dead, bool(np.isfinite(array).all()), saturated))
