"""Checks whether Keras can save a whole model by saving its configuration first."""

from __future__ import annotations

import json
import warnings
from typing import Any, NamedTuple

import keras

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.terminal.wrapping import shortened

_MOST_CHARACTERS = 240


class Trouble(NamedTuple):
    """The reason a configuration cannot be written or read."""

    error: str
    """The name of the class of the error."""
    words: str
    """The message of the error, in one line."""
    culprit: str = ""
    """The name of the user's class to change, such as "Scale"; empty if unknown."""

    def __str__(self) -> str:
        return f"{self.error}: {self.words}"


def cannot_be_saved(model: Any, path: str) -> Trouble | None:
    """The reason `model.save(path)` would fail; None if the configuration can be written.

    A `.keras` file holds the configuration as JSON, including the compiled loss and optimizer. HDF5 is less strict
    with values. Weights alone need no configuration.
    """
    is_keras = path.endswith(".keras")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are for the user's own call
            _write(model) if is_keras else _write_for_hdf5(model)
    except Exception as error:  # the user's own get_config may raise anything
        return trouble_of(error, _culprit(model))
    return None


def _write(thing: Any) -> str:
    return json.dumps(keras.saving.serialize_keras_object(thing))


def _write_for_hdf5(model: Any) -> None:
    model.get_config()
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        optimizer.get_config()


def trouble_of(error: Exception, culprit: str = "") -> Trouble:
    """The innermost message of an error, without Keras' example and configuration dump."""
    text = str(error).rpartition("Exception encountered: ")[2]
    words = " ".join(text.partition("Example:")[0].partition("Full object config:")[0].split())
    words = words.removesuffix(" Please implement `get_config()`.")
    if len(words) > _MOST_CHARACTERS:
        words = words[:_MOST_CHARACTERS].rpartition(". ")[0] or shortened(words, _MOST_CHARACTERS)
    return Trouble(type(error).__name__, words.rstrip(". "), culprit)


def _culprit(model: Any) -> str:
    """The name of the user's layer, schedule, optimizer or model class that cannot be saved; empty if none is found."""
    layers = list(KERAS.flatten_layers.of(model)(include_self=False, recursive=True))
    optimizer = getattr(model, "optimizer", None)
    rate = KERAS.learning_rate.get(optimizer)
    schedule = rate if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule) else None
    for part in (*reversed(layers), schedule, optimizer, model):
        if part is not None and not type(part).__module__.startswith("keras.") and _fails(part):
            return type(part).__name__
    return ""


def _fails(part: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _write(part)
    except Exception:
        return True
    return False
