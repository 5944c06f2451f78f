"""The gradients of the first step of a compiled model, and what its layers do in it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.trial import Gradient
from oomph.preflight.live.observed_layers import Seen, observed
from oomph.preflight.live.plain_values import float_of


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
