"""Collects the facts behind a checkpoint (script, model, data, surroundings), and describes what has changed since.

Each fact has a readable name and a value that JSON can represent. Facts are grouped by what a change in them means for
a resume. A `Beginning` contains the facts of a fit at its start; compared with a checkpoint's, they show the edits.
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
from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.store import Record
from oomph.files.cell_names import shown_cell
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.models import innermost, learning_rate_of, script_chose_xla
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.workers import workers_of
from oomph.objects.instances import dict_of
from oomph.objects.kind import is_figure
from oomph.protocol.reasons import Reason, because
from oomph.redaction.redaction import digest_of_secret, digest_of_words, redacted_words
from oomph.resume.training.call_place import plain
from oomph.script import environment_read, shell
from oomph.script.cell_code import CellCode, built_on
from oomph.script.cells import executed_before
from oomph.script.sources import code_in, script_files

Facts = dict[str, dict[str, Any]]
SCRIPT, ENVIRONMENT, STRUCTURE, DATA = "script", "environment", "structure", "data"
CONFIGURATION, CALLBACKS, TURN, CODE, SETTINGS = "configuration", "callbacks", "turn", "code", "settings"
_SURROUNDINGS, _CELLS, _ORIGIN = "surroundings", "cells", "origin"
_ALL = (SCRIPT, ENVIRONMENT, STRUCTURE, CONFIGURATION, CALLBACKS, SETTINGS, DATA, _SURROUNDINGS)
_BATCHES = "batches in an epoch"
_WORKERS = "workers"
_VARIABLE = "environment variable"
_ARGUMENTS_OF_SCRIPT = "arguments of the script"
_IN_CELLS = "in cells: "
_WEIGHTS = "weights of"
_NUMBERED = ("name", "shared_object_id")
_MOST_CHANGES = 6
_LONGEST_VALUE = 60
_MOST_NAMES = 3
_LARGEST_SETTING = 1 << 31
"""Integers of this size or larger are treated as clock values, not settings."""
_ARGUMENTS = ("epochs", "initial_epoch", "validation_split", "validation_freq", "validation_steps")
_DATA_ARGUMENTS = ("batch_size", "steps_per_epoch", "shuffle")


def facts_of(
    model: Any,
    arguments: Mapping[str, Any],
    callbacks: Sequence[Any] = (),
    values: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    turn: Mapping[str, Any] | None = None,
) -> Facts:
    """Collect the facts at the start of a fit; `data_facts` are added once Keras has created its iterator.

    Args:
        values: fingerprints of the data.
        settings: the numbers and booleans in the script's objects.
        turn: the values that distinguish this iteration of the script's loops from others.
    """
    return {
        **_script(),
        STRUCTURE: _structure(model),
        CONFIGURATION: _configuration(model) | {name: _plain(arguments.get(name)) for name in _ARGUMENTS},
        CALLBACKS: _settings(callbacks),
        SETTINGS: dict(settings or {}),
        TURN: dict(turn or {}),
        _SURROUNDINGS: {**_surroundings(), _WORKERS: workers_of(model.distribute_strategy)},
        DATA: {name: _plain(arguments.get(name)) for name in _DATA_ARGUMENTS} | dict(values or {}),
    }


def facts_around() -> Facts:
    """Collect the facts that don't depend on a fit: the script, and the machine and versions that it runs on."""
    return {**_script(), _SURROUNDINGS: _surroundings()}


def data_facts(epochs: Any) -> dict[str, Any]:
    """Read the facts about the data from Keras' epoch iterator."""
    dataset = KERAS.distributed_dataset.get(epochs)
    spec = getattr(TENSORFLOW.original_dataset.get(dataset, dataset), "element_spec", None)
    adapter = getattr(epochs, "data_adapter", None)  # not from the iterator itself, whose count changes
    return {"elements of the data": str(spec), _BATCHES: _plain(getattr(adapter, "num_batches", None))}


def changes(before: Facts, now: Facts, *groups: str) -> list[Reason]:
    """Return the differences in these groups of facts, or in all groups. Facts known to only one side are ignored."""
    found: list[Reason] = []
    for group in groups or _ALL:
        old, new = before.get(group, {}), now.get(group, {})
        both = group != STRUCTURE  # an added or removed layer is a change; its weights are unknown until built
        names = [name for name in {**old, **new} if (name in old and name in new) or not (both or _WEIGHTS in name)]
        names = [name for name in names if old.get(name) != new.get(name)]
        found += _changed_cells([name for name in names if name.startswith(_IN_CELLS)], now.get(_CELLS, {}))
        found += [_change(name, old.get(name), new.get(name)) for name in names if not name.startswith(_IN_CELLS)]
    return found


def what_was_given(before: Facts, now: Facts) -> list[Reason]:
    """Return the intentional changes to the script itself: its code, arguments, environment and settings."""
    arguments = [each for each in changes(before, now, SCRIPT) if each.value("name") == _ARGUMENTS_OF_SCRIPT]
    return [*changes(before, now, CODE), *arguments, *changes(before, now, ENVIRONMENT, SETTINGS)]


def listed(found: Sequence[Reason]) -> str:
    """List the first few changes in one sentence, and state how many more there are."""
    more = len(found) - _MOST_CHANGES
    return "; ".join(map(str, found[:_MOST_CHANGES])) + (f"; and {more} more" if more > 0 else "")


def _changed_cells(names: Sequence[str], counts: Mapping[str, Any]) -> list[Reason]:
    """Return one reason for each cell whose code has changed."""
    by_cell: dict[int, list[str]] = {}
    for name in names:
        by_cell.setdefault(int(counts.get(name, 0)), []).append(name.removeprefix(_IN_CELLS))
    return [
        because("cell-edited", cell=shown_cell(count), names=_listed_names(changed))
        for count, changed in sorted(by_cell.items())
    ]


def _listed_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _change(name: str, old: Any, new: Any) -> Reason:
    if name.startswith(_VARIABLE):  # its old and new values are only digests
        how = "is no longer set" if new is None else "is now set" if old is None else "has a different value"
        return because("variable-changed", name=name.removeprefix(f"{_VARIABLE} "), how=how)
    if name.endswith(".py"):
        return because("script-edited", name=name)
    return because("value-changed", name=name, was=_shown(old), now=_shown(new))


def _shown(value: Any) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _script() -> Facts:
    """Collect the script's files, and the parts of its environment that it reads.

    Only the code in the files counts, since comments and formatting do not affect training.
    """
    files, in_cells = script_files(), _code_in_cells()
    cells = {name: code.digest for name, code in in_cells.items()}
    return {
        SCRIPT: {**files, **cells, _ARGUMENTS_OF_SCRIPT: _arguments(shell.arguments())},
        ENVIRONMENT: _variables(environment_read.of_training()),
        CODE: {**code_in(files), **cells},
        **({_CELLS: {name: code.cell for name, code in in_cells.items()}} if in_cells else {}),
    }


def _arguments(words: Sequence[str]) -> str:
    """Return the script's arguments without secrets, but with a digest of those, since they may change."""
    digest = digest_of_words(words)
    return " ".join([*redacted_words(words), *([f"({digest})"] if digest else [])])


def _code_in_cells() -> dict[str, CellCode]:
    """Return the code in a notebook's cells that the current call builds on."""
    executed = executed_before(sys._getframe(1))
    try:
        found = {} if executed is None else built_on(executed)
    except Exception:
        found = {}  # an edit goes unnoticed, which is better than a fit without checkpoints
    return {f"{_IN_CELLS}{name}": code for name, code in found.items()}


def _structure(model: Any) -> dict[str, Any]:
    """Return the facts that determine which variables exist, except for weights that Keras has yet to build."""
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
    facts["jit_compile"] = script_chose_xla(model)
    facts |= _configured("optimizer", model.optimizer, ("learning_rate", "name"))
    for number, layer in enumerate(KERAS.flatten_layers.call(model, include_self=False)):
        facts |= _configured(f"layer {number + 1} ({type(layer).__name__})", layer, ("name", "layers", "build_config"))
    return facts


def _settings(callbacks: Sequence[Any]) -> dict[str, Any]:
    """Return the callbacks and their public settings (text, booleans, short numbers); for Keras' own, any number."""
    facts: dict[str, Any] = {"callbacks": ", ".join(type(callback).__name__ for callback in callbacks)}
    for number, callback in enumerate(callbacks):
        is_of_keras = type(callback).__module__.startswith("keras.")
        for name, value in dict_of(callback).items():
            is_setting = (
                is_figure(value) or type(value) is str or (type(value) is int and abs(value) < _LARGEST_SETTING)
            )
            if (is_setting or (is_of_keras and type(value) is float)) and not name.startswith("_"):
                facts[f"{type(callback).__name__} {number}: {name}"] = plain(value, name)
    return facts


def _weights(model: Any) -> dict[str, Any]:
    """Return the fingerprint of a model's weights, as a fact."""
    try:
        return {"weights": fingerprints.as_number(fingerprints.of_tensors([each.value for each in model.weights]))}
    except Exception:
        return {}  # weights of a strategy or of a custom layer need not be readable here


def _configured(whose: str, thing: Any, without: tuple[str, ...]) -> dict[str, Any]:
    try:
        config = dict(thing.get_config())
    except Exception:
        return {}  # a custom layer or optimizer need not have a config
    if isinstance(config.get("learning_rate"), Mapping):  # a schedule
        config["schedule"] = config["learning_rate"]
    return {f"{whose} {name}": _plain(value, name) for name, value in config.items() if name not in without}


def _variables(read: Mapping[str, str | None]) -> dict[str, Any]:
    return {f"{_VARIABLE} {name}": value for name, value in read.items()}


def _surroundings() -> dict[str, Any]:
    """Return the versions, the machine, and the environment variables that describe the job."""
    return {**_machine(), **_variables(environment_read.read_of_the_job())}


@functools.cache
def _machine() -> dict[str, Any]:
    """Return the facts about the machine and versions, which do not change within a process."""
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


def _plain(value: Any, name: str = "") -> Any:
    """Return a value as JSON, or its type's name if JSON cannot represent it. Names numbered by Keras are left out.

    Keys and passwords, recognised by name or format, are replaced by a digest.
    """
    if isinstance(value, (bool, int, float, type(None))):
        return value
    text = value if isinstance(value, str) else json.dumps(_without_names(value), default=_name_of, sort_keys=True)
    return digest_of_secret(name, text) or text


def _without_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_names(item) for key, item in value.items() if key not in _NUMBERED}
    return [_without_names(item) for item in value] if isinstance(value, (list, tuple)) else value


class Beginning:
    """The facts of a fit before anything from an earlier attempt is restored.

    Args:
        arguments: the arguments passed to `fit`.
        values: fingerprints of the data.
        settings: the numbers and booleans in the script's objects.
        turn: the values that distinguish this iteration of the script's loops from others.
        is_in_cell: True if a cell of a notebook calls the fit. What the cells before it did to the model is then part
            of its facts: unlike a script, a notebook is edited between two kernels, and not every cell runs again.
    """

    def __init__(
        self,
        model: Any,
        arguments: Mapping[str, Any],
        callbacks: list[Any],
        values: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        turn: Mapping[str, Any] | None = None,
        is_in_cell: bool = False,
    ) -> None:
        self._model = model
        self._facts = facts_of(model, arguments, callbacks, values, settings, turn)
        self.learning_rate = learning_rate_of(model.optimizer)
        """The learning rate that the script sets before the fit, or None for a schedule."""
        self._is_new = is_new(model.optimizer)
        self._facts[_ORIGIN] = _weights(model) if is_in_cell and not self._is_new else {}
        if self.learning_rate is not None:
            self._facts[TURN]["learning rate"] = self.learning_rate

    def facts(self, epochs: Any) -> Facts:
        """Return all facts known so far; `epochs` is Keras' epoch iterator, or None before it exists."""
        if epochs is None or "elements of the data" in self._facts[DATA]:
            return self._facts
        self._facts[DATA] |= data_facts(epochs)
        return self._facts

    def compared(self, checkpoint: Checkpoint, fingerprint: str) -> str:
        """Compare this fit with a checkpoint's fit.

        Returns "same"; "edited" if the script changed, but not the variables; "another model" if both the script and
        the model changed; or "unstable" if an unchanged script created a different model or optimizer.
        """
        structure = self.changes(checkpoint, STRUCTURE)
        if checkpoint.meta.fingerprint == fingerprint and not structure:
            return "same"
        if not self.script_was_edited(checkpoint):
            return "unstable"
        return "another model" if structure else "edited"

    def changes(self, checkpoint: Checkpoint | Record, *groups: str) -> list[Reason]:
        """Return the differences from a checkpoint's fit, in these groups of facts, or in all groups."""
        return changes(_made_by(checkpoint), self._facts, *groups)

    def meant(self, checkpoint: Checkpoint) -> list[Reason]:
        """Return the intentional changes that may affect the result: edits to the script or to anything it reads."""
        before, now = _made_by(checkpoint), self._facts
        found = [*what_was_given(before, now), *changes(before, now, CONFIGURATION, DATA)]
        if self.script_was_edited(checkpoint):
            found += changes(before, now, CALLBACKS)
        else:  # paths may differ each time the script starts
            found += changes(_without_paths(before), _without_paths(now), CALLBACKS)
        found = [change for change in found if change.value("name") != "initial_epoch"]
        return [*found, *self.other_workers(checkpoint)]

    def other_workers(self, checkpoint: Checkpoint) -> list[Reason]:
        """Return a reason if another number of workers took part when the checkpoint was written."""
        was, now = (facts.get(_SURROUNDINGS, {}).get(_WORKERS) for facts in (_made_by(checkpoint), self._facts))
        return [] if was is None or now is None or was == now else [because("workers-changed", was=was, now=now)]

    def other_origin(self, checkpoint: Checkpoint) -> list[Reason]:
        """Return a reason if the model had been trained before this fit, but otherwise than before the saved one."""
        before, now = _made_by(checkpoint).get(_ORIGIN, {}), self._facts[_ORIGIN]
        return [because("other-origin")] if now and before != now else []

    def given_otherwise(self, checkpoint: Checkpoint | Record) -> list[Reason]:
        """Return the changes to the script's code, arguments, environment and settings."""
        return what_was_given(_made_by(checkpoint), self._facts)

    def script_was_edited(self, checkpoint: Checkpoint | Record) -> bool:
        """True if the script, its arguments, or the parts of its environment that it reads have changed."""
        return bool(changes(_made_by(checkpoint), self._facts, SCRIPT, ENVIRONMENT))

    def keep_edited_learning_rate(self, checkpoint: Checkpoint) -> list[Reason]:
        """Apply the learning rate that the script sets after a restore, if it is new; return the change, if any.

        If the optimizer had already taken steps before the fit, its rate may come from a file that the script loaded.
        """
        before, now = checkpoint.meta.learning_rate, self.learning_rate
        is_set = self._is_new or self.script_was_edited(checkpoint)
        if None in (before, now) or before == now or not is_set:
            return []
        innermost(self._model.optimizer).learning_rate = now
        return [because("value-changed", name="learning rate", was=f"{before:g}", now=f"{now:g}")]


def epochs_of(checkpoint: Checkpoint) -> int | None:
    """Return the number of epochs planned for a checkpoint's fit, or None if unknown."""
    return _whole(_made_by(checkpoint).get(CONFIGURATION, {}).get("epochs"))


def steps_of_an_epoch(checkpoint: Checkpoint) -> int | None:
    """Return the number of steps per epoch in a checkpoint's fit, or None if unknown."""
    facts = _made_by(checkpoint).get(DATA, {})
    return _whole(facts.get("steps_per_epoch") or facts.get(_BATCHES))


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _without_paths(facts: Facts) -> Facts:
    return {CALLBACKS: {name: value for name, value in facts.get(CALLBACKS, {}).items() if "/" not in str(value)}}


def _made_by(checkpoint: Checkpoint | Record) -> Facts:
    made_by: Facts = checkpoint.meta.made_by
    return made_by


def is_new(optimizer: Any) -> bool:
    """True if an optimizer has not taken a step yet."""
    try:
        return int(innermost(optimizer).iterations.numpy()) == 0
    except Exception:
        return False  # a custom optimizer
