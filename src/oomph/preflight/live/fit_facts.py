"""Turns the call to fit into facts, and tests whether the whole model can be saved, without writing a file."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.data import ENDLESS, Data
from oomph.preflight.facts.training import Callback, FitFacts, SavedWhole
from oomph.preflight.live.plain_values import is_of_keras, plain
from oomph.resume.training.whole_models import Load, cannot_be_saved, saves_ahead, trouble_of
from oomph.script.quiet import without_warnings


def fit_facts(kind: str, given: Mapping[str, Any], place: str, data: Data, rate: float | None = None) -> FitFacts:
    """Collect facts about a training call.

    Args:
        kind: "fit", "train_on_batch" or "custom loop".
        given: the arguments of the call, keyed by name.
        place: the file and line of the call.
        data: the facts about its data.
        rate: the learning rate before the first step; None if unknown.
    """
    number = int(given.get("epochs") or 1)
    per_epoch = _whole(given.get("steps_per_epoch"))
    return FitFacts(
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
"""Callbacks that need a direction. Keras 3.5 raises only for EarlyStopping; MonitorCallback was added later."""


def _rates(callback: Any, rate: float | None, epochs: range) -> tuple[tuple[float, ...], str]:
    """Return the rates from a LearningRateScheduler's function, and the first value that is not a valid rate."""
    if type(callback).__name__ != "LearningRateScheduler" or not is_of_keras(type(callback)) or rate is None:
        return (), ""
    found: list[float] = []
    for epoch in epochs[:_MOST_EPOCHS]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                rate = _scheduled(callback.schedule, epoch, rate)
        except Exception:  # the user's function may raise anything, or need objects that exist only during training
            break
        if not isinstance(rate, (float, np.float32, np.float64)):
            return tuple(found), f"{rate!r} in epoch {epoch + 1}"
        found.append(float(rate))
    return tuple(found), ""


def _scheduled(schedule: Any, epoch: int, rate: float) -> Any:
    """Call a schedule as Keras does: with the learning rate if it accepts one, otherwise without."""
    try:
        return schedule(epoch, rate)
    except TypeError:
        return schedule(epoch)


def callbacks_of(given: Mapping[str, Any]) -> list[Any]:
    """Return the callbacks passed to fit, whatever form they have, as a list."""
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


_MOST_WEIGHTS = 20_000_000
"""The maximum number of weights in a model to rebuild from its configuration."""
_NOT_FOUND = "Could not locate"
"""Part of Keras' error about a class outside the model itself, such as a regulariser. The script may still pass it."""


def saving_facts(model: Any, callbacks: Sequence[Any], loads: bool) -> Iterator[SavedWhole]:
    """Yield every call or callback that saves the model, and whether saving and loading would work.

    Args:
        model: the model, already built.
        callbacks: the callbacks passed to fit.
        loads: True to try loading as well, which creates a second model.
    """
    tries = loads and getattr(model, "built", False) and model.count_params() <= _MOST_WEIGHTS
    for save in saves_ahead(model, callbacks):
        trouble = cannot_be_saved(model, save.path)
        if trouble is not None:
            yield SavedWhole(save.by, save.path, save.site, str(trouble), trouble.culprit)
            continue
        is_tried = tries and save.path.endswith(".keras")
        words, is_own = _load_trouble(model, save.load, save.gives_weights) if is_tried else ("", False)
        site = "" if save.load is None else save.load.site
        yield SavedWhole(save.by, save.path, save.site, is_loaded_at=site, load_trouble=words, is_own_load=is_own)


def _load_trouble(model: Any, load: Load | None, is_for_weights: bool) -> tuple[str, bool]:
    """Return why the file cannot be loaded, and True if the script's own line is the cause."""
    if load is not None and not load.with_objects:
        trouble = _made_again(model, {}, load.with_compile)
        if trouble:
            return trouble, True
    if is_for_weights:
        return "", False
    trouble = _made_again(model, _own_classes(model), with_compile=False)
    return ("" if _NOT_FOUND in trouble else trouble), False


def _made_again(model: Any, objects: dict[str, Any], with_compile: bool) -> str:
    """Return the error that Keras raises when it rebuilds the model from its configuration; empty if there is none."""
    with without_warnings():
        written = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
        if not with_compile:
            written["compile_config"] = None
        try:
            keras.saving.deserialize_keras_object(written, custom_objects=objects, safe_mode=not objects)
        except Exception as error:  # a user-defined from_config may raise anything
            return str(trouble_of(error))
    return ""


def _own_classes(model: Any) -> dict[str, Any]:
    """Return the custom classes used in a model, keyed by the names that Keras looks up."""
    found = {}
    for layer in KERAS.flatten_layers.of(model)(include_self=True, recursive=True):
        for each in (layer, *vars(layer).values()):
            kind = each if callable(each) and hasattr(each, "__name__") else type(each)
            if not is_of_keras(kind) and getattr(kind, "__module__", "builtins") != "builtins":
                found[keras.saving.get_registered_name(kind)] = found[kind.__name__] = kind
    return found
