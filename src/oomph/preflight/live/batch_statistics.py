"""Whether samples differ in the outputs once normalisation takes the statistics of the batch, as in training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from oomph.keras_bridge.names.keras3 import KERAS

_ROUNDING = 1e-7


def differ_in_training(model: Any, x: Any) -> bool:
    """Whether the outputs of a model that trains BatchNormalization differ for the samples, in training mode.

    Moving statistics that have not been trained leave small values as they are, so that in inference mode nothing of
    the input may be left after many layers; in training mode each layer brings its values back to a deviation of 1.
    What dropout adds to samples is no difference between them: it stays off.
    """
    layers = KERAS.flatten_layers.of(model)(include_self=False)
    if not any(isinstance(layer, keras.layers.BatchNormalization) and layer.trainable for layer in layers):
        return False
    try:
        with _without_chance(model):
            outputs = keras.tree.flatten(model(x, training=True))
        return any(_differs(np.asarray(output, np.float64)) for output in outputs)
    except Exception:  # the step will say why
        return False


def _differs(rows: Any) -> bool:
    spread = rows.reshape(rows.shape[0], -1).std(axis=0).max()
    return bool(spread > _ROUNDING * max(float(np.abs(rows).max()), 1e-12))


@contextmanager
def _without_chance(model: Any) -> Iterator[None]:
    """Layers that draw random numbers do as they do in inference."""
    changed = [layer for layer in KERAS.flatten_layers.of(model)(include_self=False) if _draws(layer)]
    for layer in changed:

        def call(*args: Any, _original: Any = layer.call, **kwargs: Any) -> Any:
            return _original(*args, **{**kwargs, "training": False} if "training" in kwargs else kwargs)

        object.__setattr__(layer, "call", call)
    try:
        yield
    finally:
        for layer in changed:
            object.__delattr__(layer, "call")


def _draws(layer: Any) -> bool:
    return getattr(layer, "seed_generator", None) is not None or getattr(layer, "generator", None) is not None
