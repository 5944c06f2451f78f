"""Tries to save the whole model as the script will, and to load it again. No file is written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.preflight.facts.fit import SavedWhole
from oomph.preflight.live.plain_values import is_of_keras
from oomph.resume.training.saving import cannot_be_saved, trouble_of
from oomph.resume.training.whole_models import Load, saves_ahead

_MOST_NUMBERS = 20_000_000
"""A model is made again from its configuration if it has no more weights."""
_NOT_FOUND = "Could not locate"
"""Of a class that is not in the model itself, as that of a regulariser: a script may well pass it."""


def saving_facts(model: Any, callbacks: Sequence[Any], loads: bool) -> Iterator[SavedWhole]:
    """Each place that saves the model.

    Args:
        model: the model, built.
        callbacks: those of the fit.
        loads: True if loading is tried too, which makes a second model.
    """
    tries = loads and getattr(model, "built", False) and model.count_params() <= _MOST_NUMBERS
    for save in saves_ahead(model, callbacks):
        trouble = cannot_be_saved(model, save.path)
        if trouble is not None:
            yield SavedWhole(save.by, save.path, save.site, str(trouble), trouble.culprit)
            continue
        is_tried = tries and save.path.endswith(".keras")
        words, is_own = _load(model, save.load, save.gives_weights) if is_tried else ("", False)
        site = "" if save.load is None else save.load.site
        yield SavedWhole(save.by, save.path, save.site, is_loaded_at=site, load_trouble=words, is_own_load=is_own)


def _load(model: Any, load: Load | None, is_for_weights: bool) -> tuple[str, bool]:
    """Why the file cannot be loaded: by the script's own line, or by any line."""
    if load is not None and not load.with_objects:
        trouble = _made_again(model, {}, load.with_compile)
        if trouble:
            return trouble, True
    if is_for_weights:
        return "", False
    trouble = _made_again(model, _own_classes(model), with_compile=False)
    return ("" if _NOT_FOUND in trouble else trouble), False


def _made_again(model: Any, objects: dict[str, Any], with_compile: bool) -> str:
    """The error with which Keras makes no model of the configuration; empty if it makes one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
        if not with_compile:
            written["compile_config"] = None
        try:
            keras.saving.deserialize_keras_object(written, custom_objects=objects, safe_mode=not objects)
        except Exception as error:  # the user's own from_config may raise anything
            return str(trouble_of(error))
    return ""


def _own_classes(model: Any) -> dict[str, Any]:
    """The classes of the user's own in a model, by the names that they are looked up with."""
    found = {}
    for layer in KERAS.flatten_layers.of(model)(include_self=True, recursive=True):
        for each in (layer, *vars(layer).values()):
            kind = each if callable(each) and hasattr(each, "__name__") else type(each)
            if not is_of_keras(kind) and getattr(kind, "__module__", "builtins") != "builtins":
                found[keras.saving.get_registered_name(kind)] = found[kind.__name__] = kind
    return found
