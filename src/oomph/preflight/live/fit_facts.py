"""The call of fit as facts."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from oomph.preflight.facts.data import ENDLESS, Data
from oomph.preflight.facts.fit import Callback, Fit
from oomph.preflight.live.plain_values import is_of_keras, plain


def fit_facts(kind: str, given: Mapping[str, Any], place: str, data: Data, rate: float | None = None) -> Fit:
    """How a training was called.

    Args:
        kind: "fit", "train_on_batch" or "custom loop".
        given: the arguments of the call by name.
        place: its file and line.
        data: what is known of its data.
        rate: the learning rate before the first step; None if it is not known.
    """
    number = int(given.get("epochs") or 1)
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
        callbacks=tuple(_callbacks(callbacks_of(given), rate, range(int(given.get("initial_epoch") or 0), number))),
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


_MOST_EPOCHS = 1000
_NEED_A_DIRECTION = ("EarlyStopping", "MonitorCallback")
"""In Keras 3.5 only the first raises without one; the class of the others came later."""


def _rates(callback: Any, rate: float | None, epochs: range) -> tuple[tuple[float, ...], str]:
    """What the function of a LearningRateScheduler returns for each epoch, and what it returns that is no rate."""
    if type(callback).__name__ != "LearningRateScheduler" or not is_of_keras(type(callback)) or rate is None:
        return (), ""
    found: list[float] = []
    for epoch in epochs[:_MOST_EPOCHS]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                rate = _scheduled(callback.schedule, epoch, rate)
        except Exception:  # the user's function may raise anything, and need what a training has
            break
        if not isinstance(rate, (float, np.float32, np.float64)):
            return tuple(found), f"{rate!r} in epoch {epoch + 1}"
        found.append(float(rate))
    return tuple(found), ""


def _scheduled(schedule: Any, epoch: int, rate: float) -> Any:
    """As Keras calls it: with the rate, or without."""
    try:
        return schedule(epoch, rate)
    except TypeError:
        return schedule(epoch)


def callbacks_of(given: Mapping[str, Any]) -> list[Any]:
    """The callbacks that fit was given, in any form that it takes."""
    found = given.get("callbacks")
    if isinstance(found, keras.callbacks.CallbackList):
        found = found.callbacks
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _callbacks(each: list[Any], rate: float | None, epochs: range) -> list[Callback]:
    return [
        Callback(
            callback.__name__ if isinstance(callback, type) else type(callback).__name__,
            is_of_keras(callback if isinstance(callback, type) else type(callback)),
            {} if isinstance(callback, type) else plain(vars(callback)),
            isinstance(callback, type),
            *_rates(callback, rate, epochs),
            any(each.__name__ in _NEED_A_DIRECTION for each in type(callback).__mro__),
        )
        for callback in each
        if callback is not None and hasattr(callback, "__dict__")
    ]
