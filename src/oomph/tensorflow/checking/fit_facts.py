"""The call of fit as facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from oomph.preflight.facts.data import ENDLESS, Data
from oomph.preflight.facts.fit import Callback, Fit
from oomph.tensorflow.checking.plain_values import is_of_keras, plain


def fit_facts(kind: str, given: Mapping[str, Any], place: str, data: Data, epochs: int | None = None) -> Fit:
    """How a training was called.

    Args:
        kind: "fit", "train_on_batch" or "custom loop".
        given: the arguments of the call by name.
        place: its file and line.
        data: what is known of its data.
        epochs: the number of epochs, where it is not an argument.
    """
    number = int(epochs or given.get("epochs") or 1)
    per_epoch = _whole(given.get("steps_per_epoch"))
    return Fit(
        kind=kind,
        epochs=number,
        initial_epoch=int(given.get("initial_epoch") or 0),
        steps_per_epoch=per_epoch,
        steps=_steps(number - int(given.get("initial_epoch") or 0), per_epoch, data),
        batch_size=_whole(given.get("batch_size")),
        shuffle=given.get("shuffle", True) is not False,
        validation_split=float(given.get("validation_split") or 0.0),
        validation_steps=_whole(given.get("validation_steps")),
        validation_freq=_whole(given.get("validation_freq")) or 1,
        class_weight=_class_weight(given.get("class_weight")),
        has_validation=given.get("validation_data") is not None or bool(given.get("validation_split")),
        has_y=given.get("y") is not None,
        callbacks=tuple(_callbacks(given.get("callbacks"))),
        place=place,
    )


def _steps(epochs: int, per_epoch: int | None, data: Data) -> int | None:
    if per_epoch is not None:
        return per_epoch * epochs
    return data.batches * epochs if data.batches is not None and data.batches != ENDLESS else None


def _whole(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _class_weight(given: Any) -> dict[int, float] | None:
    if not isinstance(given, Mapping):
        return None
    try:
        return {int(key): float(value) for key, value in given.items()}
    except (TypeError, ValueError):
        return None


_NEED_A_DIRECTION = ("EarlyStopping", "MonitorCallback")
"""In Keras 3.5 only the first raises without one; the class of the others came later."""


def _callbacks(given: Any) -> list[Callback]:
    if isinstance(given, keras.callbacks.CallbackList):
        given = given.callbacks
    each = given if isinstance(given, (list, tuple)) else [given]
    return [
        Callback(
            type(callback).__name__,
            is_of_keras(type(callback)),
            plain(vars(callback)),
            any(each.__name__ in _NEED_A_DIRECTION for each in type(callback).__mro__),
        )
        for callback in each
        if callback is not None and hasattr(callback, "__dict__")
    ]
