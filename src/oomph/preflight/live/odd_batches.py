"""Tries a model on the other batch sizes that its data have: the last batch, and those of the validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.data import ARRAYS, Data
from oomph.preflight.facts.trial import OddBatch
from oomph.preflight.live.plain_values import is_of_keras
from oomph.preflight.live.trial_steps import decisive, first_samples, rows_of

_MEMORY = ("ResourceExhaustedError", "MemoryError")


def odd_batches(model: Any, batch: Any, data: Data, validation: Data | None) -> Iterator[OddBatch]:
    """Those that fail where a whole batch works.

    Only of models that may be written for one size: with a state, a fixed size, or code of the user's own.

    Args:
        model: the model, with which a step on a batch has worked.
        batch: a whole one.
        data: the training data.
        validation: the validation data.
    """
    if not _may_be_fixed(model) or tf.distribute.has_strategy():
        return
    whole = rows_of(keras.utils.unpack_x_y_sample_weight(batch)[0])
    if _error(model, batch) is not None:
        return
    for each in (data, *([] if validation is None else [validation])):
        for size in sorted(_sizes(each)):
            if 0 < size < whole:
                error = _error(model, first_samples(batch, size))
                if error is not None:
                    yield OddBatch(size, error, each is not data)
                    break


def _may_be_fixed(model: Any) -> bool:
    layers = list(KERAS.flatten_layers.of(model)(include_self=True, recursive=True))
    inputs = [tensor.shape for tensor in keras.tree.flatten(getattr(model, "inputs", None) or [])]
    loss = getattr(model, "loss", None)
    return (
        any(getattr(layer, "stateful", False) is True or not is_of_keras(type(layer)) for layer in layers)
        or any(shape and shape[0] is not None for shape in inputs)
        or (callable(loss) and not is_of_keras(loss) and not is_of_keras(type(loss)))
    )


def _sizes(data: Data) -> set[int]:
    """The sizes of its batches, as far as they are known."""
    if data.kind == ARRAYS:
        rest = data.samples % data.batch if data.samples and data.batch else 0
        return {rest, data.batch or 0}
    return {shape[0] or 0 for part in data.of("x") for shape in part.shapes if shape}


def _error(model: Any, batch: Any) -> str | None:
    """How the model, or its loss, fails with a batch; None if it does not."""
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    try:
        outputs = model(x, training=False)
        if type(model).train_step is KERAS.trainer.value().train_step and y is not None:
            model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight, training=False)
    except Exception as error:
        return None if type(error).__name__ in _MEMORY else f"{type(error).__name__}: {decisive(str(error))}"
    return None
