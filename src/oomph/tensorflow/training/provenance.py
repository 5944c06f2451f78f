"""What made a checkpoint: script, model, data and surroundings. And what has changed since, in words.

The facts are flat: a name for people, and a value that JSON can hold. They fall into groups by what a change of one of
them means for a resume.
A `Beginning` is what a fit was like when it began: compared with a checkpoint, it tells what has been edited since.
"""

from __future__ import annotations

import functools
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

import oomph
from oomph.recovery.checkpoint.container import Checkpoint
from oomph.recovery.checkpoint.store import Record
from oomph.recovery.script.sources import code_in, script_files
from oomph.redaction import redacted_words
from oomph.tensorflow.names.keras3 import KERAS
from oomph.tensorflow.objects.instances import dict_of
from oomph.tensorflow.training.call_place import plain

Facts = dict[str, dict[str, Any]]
SCRIPT, STRUCTURE, DATA = "script", "structure", "data"
CONFIGURATION, CALLBACKS, TURN, CODE = "configuration", "callbacks", "turn", "code"
_SURROUNDINGS = "surroundings"
_WEIGHTS = "weights of"
_NUMBERED = ("name", "shared_object_id")
_MOST_CHANGES = 6
_LONGEST_VALUE = 60
_ARGUMENTS = ("epochs", "initial_epoch", "validation_split", "validation_freq", "validation_steps")
_LARGEST_SETTING = 1 << 31
"""Above it a number is a clock's."""
_DATA_ARGUMENTS = ("batch_size", "steps_per_epoch", "shuffle")


def facts_of(
    model: Any,
    arguments: Mapping[str, Any],
    callbacks: Sequence[Any] = (),
    values: Mapping[str, Any] | None = None,
    turn: Mapping[str, Any] | None = None,
) -> Facts:
    """What is known when a fit begins; `data_facts` are added to it once Keras has made its iterator.

    Args:
        callbacks: the user's own.
        values: fingerprints of the data.
        turn: what tells this turn of the script's loops from others.
    """
    return {
        **_script(),
        STRUCTURE: _structure(model),
        CONFIGURATION: _configuration(model) | {name: _plain(arguments.get(name)) for name in _ARGUMENTS},
        CALLBACKS: _settings(callbacks),
        TURN: dict(turn or {}),
        _SURROUNDINGS: dict(_surroundings()),
        DATA: {name: _plain(arguments.get(name)) for name in _DATA_ARGUMENTS} | dict(values or {}),
    }


def facts_around() -> Facts:
    """What is known without any fit: the script, and what it runs on."""
    return {**_script(), _SURROUNDINGS: _surroundings()}


def data_facts(epochs: Any) -> dict[str, Any]:
    """What is known of the data from Keras' iterator over it."""
    spec = getattr(KERAS.distributed_dataset.get(epochs), "element_spec", None)
    adapter = getattr(epochs, "data_adapter", None)  # the iterator itself counts the batches of an epoch, and learns
    return {"elements of the data": str(spec), "batches in an epoch": _plain(getattr(adapter, "num_batches", None))}


def changes(before: Facts, now: Facts, *groups: str) -> list[str]:
    """What differs, in words, in these groups or in all of them. A fact that only one side knows says nothing."""
    found: list[str] = []
    if not before:  # by a version that kept no account of it
        return found
    for group in groups or (SCRIPT, STRUCTURE, CONFIGURATION, CALLBACKS, DATA, _SURROUNDINGS):
        old, new = before.get(group, {}), now.get(group, {})
        both = group != STRUCTURE  # a layer more or less is a change; its weights are not known before they are built
        names = [name for name in {**old, **new} if (name in old and name in new) or not (both or _WEIGHTS in name)]
        found += [_change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
    return found


def listed(found: list[str]) -> str:
    """Some changes in one sentence."""
    more = len(found) - _MOST_CHANGES
    return "; ".join(found[:_MOST_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def _change(name: str, old: Any, new: Any) -> str:
    return f"{name} was edited" if name.endswith(".py") else f"{name}: {_shown(old)} → {_shown(new)}"


def _shown(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _script() -> Facts:
    """The script, and its code alone: edits of comments and layout have no effect on the training."""
    files = script_files()
    return {
        SCRIPT: {**files, "arguments of the script": " ".join(redacted_words(sys.argv[1:]))},
        CODE: dict(code_in(files)),
    }


def _structure(model: Any) -> dict[str, Any]:
    """What decides which variables there are. Weights that Keras has yet to build are left out."""
    facts: dict[str, Any] = {"model": type(model).__name__, "optimizer": type(model.optimizer).__name__}
    for number, layer in enumerate(KERAS.flatten_layers.call(model)):
        facts[f"layer {number}"] = type(layer).__name__
        if model.built:
            shapes = [
                f"{v.dtype}{list(v.shape)}"
                for v in KERAS.trainable_variables.of(layer) + KERAS.non_trainable_variables.of(layer)
            ]
            facts[f"{_WEIGHTS} layer {number}"] = ", ".join(shapes)
            facts[f"{_WEIGHTS} layer {number} are trained"] = bool(layer.trainable)
    return facts


def _configuration(model: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"loss": _name_of(model.loss), "steps_per_execution": _plain(model.steps_per_execution)}
    facts["jit_compile"] = _plain(model.jit_compile)
    facts |= _configured("optimizer", model.optimizer, ("learning_rate", "name"))
    for number, layer in enumerate(KERAS.flatten_layers.call(model, include_self=False)):
        facts |= _configured(f"layer {number + 1} ({type(layer).__name__})", layer, ("name", "layers", "build_config"))
    return facts


def _settings(callbacks: Sequence[Any]) -> dict[str, Any]:
    """Which callbacks there are, and the words and whole numbers that they were made with."""
    facts: dict[str, Any] = {"callbacks": ", ".join(type(callback).__name__ for callback in callbacks)}
    for number, callback in enumerate(callbacks):
        for name, value in dict_of(callback).items():
            is_setting = type(value) in (bool, str) or (type(value) is int and abs(value) < _LARGEST_SETTING)
            if is_setting and not name.startswith("_"):
                facts[f"{type(callback).__name__} {number}: {name}"] = plain(value)
    return facts


def _configured(whose: str, thing: Any, without: tuple[str, ...]) -> dict[str, Any]:
    try:
        config = dict(thing.get_config())
    except Exception:
        return {}  # a layer or an optimizer of the user's own need not have one
    return {f"{whose} {name}": _plain(value) for name, value in config.items() if name not in without}


@functools.cache
def _surroundings() -> dict[str, Any]:
    """The versions and the machine, which stay as long as the process."""
    import keras

    return {
        "oomph": oomph.__version__,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "Python": platform.python_version(),
        "machine": platform.node(),
        "devices": ", ".join(sorted(device.name for device in tf.config.list_logical_devices())),
    }


def _name_of(thing: Any) -> str:
    return thing if isinstance(thing, str) else getattr(thing, "__name__", type(thing).__name__)


def _plain(value: Any) -> Any:
    """The value as JSON keeps it; of what JSON does not know, its kind. The names that Keras numbers are left out."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return json.dumps(_without_names(value), default=_name_of, sort_keys=True)


def _without_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_names(item) for key, item in value.items() if key not in _NUMBERED}
    return [_without_names(item) for item in value] if isinstance(value, (list, tuple)) else value


class Beginning:
    """Taken before anything of an earlier attempt is put back.

    Args:
        model: the compiled model.
        arguments: those of `fit`.
        callbacks: the user's own.
        values: fingerprints of the data.
        turn: what tells this turn of the script's loops from others.
    """

    def __init__(
        self,
        model: Any,
        arguments: Mapping[str, Any],
        callbacks: list[Any],
        values: Mapping[str, Any] | None = None,
        turn: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        self._facts = facts_of(model, arguments, callbacks, values, turn)
        self.learning_rate = _learning_rate(model.optimizer)
        """What the script sets before the fit; None for a schedule."""
        if self.learning_rate is not None:
            self._facts[TURN]["learning rate"] = self.learning_rate

    def facts(self, epochs: Any) -> Facts:
        """Everything that is known; `epochs`: Keras' iterator over the data, or None as long as there is none."""
        if epochs is None or "elements of the data" in self._facts[DATA]:
            return self._facts
        self._facts[DATA] |= data_facts(epochs)
        return self._facts

    def compared(self, checkpoint: Checkpoint, fingerprint: str) -> str:
        """How this fit stands to the one of a checkpoint.

        "same"; "edited": the script is another, the variables are the same; "another model": the script is another and
        so is the model; "unstable": the script is the same and has made another model or optimizer all the same.
        """
        structure = self.changes(checkpoint, STRUCTURE)
        if checkpoint.meta.fingerprint == fingerprint and not structure:
            return "same"
        if not self.script_was_edited(checkpoint):
            return "unstable"
        return "another model" if structure else "edited"

    def changes(self, checkpoint: Checkpoint | Record, *groups: str) -> list[str]:
        """What is different from the fit of a checkpoint, in words; in these groups of facts, or in all."""
        return changes(_made_by(checkpoint), self._facts, *groups)

    def meant(self, checkpoint: Checkpoint) -> list[str]:
        """What is different on purpose, and may change the result: by an edit of the script, or of what it reads."""
        groups = (CODE, CONFIGURATION, DATA, *([CALLBACKS] if self.script_was_edited(checkpoint) else []))
        return [change for change in self.changes(checkpoint, *groups) if not change.startswith("initial_epoch")]

    def edited_code(self, checkpoint: Checkpoint | Record) -> list[str]:
        """Which files of the script have other code, in words."""
        return self.changes(checkpoint, CODE)

    def script_was_edited(self, checkpoint: Checkpoint | Record) -> bool:
        """Whether the script, or the arguments it was called with, are others."""
        return bool(changes(_made_by(checkpoint), self._facts, SCRIPT))

    def keep_edited_learning_rate(self, checkpoint: Checkpoint) -> str:
        """After a restore: the learning rate of an edited script is meant; returns what was done, in words."""
        before, now = checkpoint.meta.learning_rate, self.learning_rate
        if None in (before, now) or before == now or not self.script_was_edited(checkpoint):
            return ""
        _innermost(self._model.optimizer).learning_rate = now
        return f"learning rate: {before:g} → {now:g}"


def _made_by(checkpoint: Checkpoint | Record) -> Facts:
    made_by: Facts = checkpoint.meta.made_by
    return made_by


def _learning_rate(optimizer: Any) -> float | None:
    rate: Any = KERAS.learning_rate.get(_innermost(optimizer))
    return float(rate.numpy()) if hasattr(rate, "numpy") else None


def _innermost(optimizer: Any) -> Any:
    """The optimizer within one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)
