"""Records the calls to Keras loss objects in a custom loop, and which model output each call receives."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from oomph.keras_bridge.runtime.patching import patch

_MOST_OUTPUTS, _MOST_CALLS = 64, 8


@dataclass(frozen=True)
class LossCall:
    """One call to a loss object."""

    loss: Any
    model: Any
    """The model whose output the loss receives, or None if the loss receives something else."""
    index: int
    """The index of that output among the model's outputs."""
    swaps: bool
    """True if a model's output is passed as the target instead of the prediction."""


def listen(is_nested: Callable[[], bool]) -> Callable[[], tuple[LossCall, ...]]:
    """Record calls to losses outside `fit`; return a function that lists the latest calls."""
    outputs: deque[tuple[Any, Any, int]] = deque(maxlen=_MOST_OUTPUTS)
    calls: deque[LossCall] = deque(maxlen=_MOST_CALLS)
    model_call, loss_call = keras.Model.__call__, keras.losses.Loss.__call__

    @functools.wraps(model_call)
    def call_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = model_call(self, *args, **kwargs)
        if not is_nested() and isinstance(self, keras.Model):
            outputs.extend((tensor, self, index) for index, tensor in enumerate(keras.tree.flatten(result)))
        return result

    @functools.wraps(loss_call)
    def call_loss(self: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_nested():
            model, index = _maker(outputs, y_pred)
            swaps = model is None
            model, index = _maker(outputs, y_true) if swaps else (model, index)
            calls.append(LossCall(self, model, index, swaps and model is not None))
        return loss_call(self, y_true, y_pred, *args, **kwargs)

    patch(keras.Model, "__call__", call_model)
    patch(keras.losses.Loss, "__call__", call_loss)
    return lambda: tuple(calls)


def _maker(outputs: deque[tuple[Any, Any, int]], tensor: Any) -> tuple[Any, int]:
    """Return the outermost model that output a tensor, and the tensor's index among the model's outputs."""
    found = [(model, index) for made, model, index in outputs if made is tensor]
    return found[-1] if found else (None, 0)
