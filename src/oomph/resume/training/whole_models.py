"""Finds where a script saves a whole model and loads it again, and whether Keras can save the model.

Only saves that are certain to happen count: the name before `.save` is bound to this model during training, and the
line follows the call that trains in the same function or file, outside any `try`, and outside any `if` that does not
also contain that call.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import keras

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.resume.training.call_place import frames_of_the_script, tree_of
from oomph.script.cells import MODULE, function_in, site_in, source_file
from oomph.script.quiet import without_warnings
from oomph.terminal.wrapping import shortened

_ENDINGS = (".keras", ".h5", ".hdf5")
_WEIGHTS = ".weights.h5"
_SAVERS, _LOADERS = ("save", "save_model"), ("load_model",)
_SCOPES = ("custom_object_scope", "CustomObjectScope")


@dataclass(frozen=True)
class Load:
    """A line of the script that loads the saved file."""

    site: str
    """The file and line: "train.py:15"."""
    with_compile: bool = True
    """True if the line is certain to load the loss, the metrics and the optimizer as well."""
    with_objects: bool = False
    """True if the line passes custom objects to the loader, or might pass them."""


@dataclass(frozen=True)
class Save:
    """A callback or line of the script that will save the whole model."""

    by: str
    """The callback or method that saves the model: "ModelCheckpoint" or "model.save"."""
    path: str
    site: str = ""
    """The file and line, such as "train.py:12"; empty for a callback."""
    load: Load | None = None
    gives_weights: bool = False
    """True if a line of the script loads only the weights from the file, which does not require a configuration."""


def saves_ahead(model: Any, callbacks: Sequence[Any]) -> Iterator[Save]:
    """Yield every save of the whole model that is certain to follow the training."""
    if type(model).save is not keras.Model.save:
        return  # an override by the user, which may save anything
    frames = list(frames_of_the_script())
    for callback in callbacks:
        if _saves_all(callback):
            path = os.fspath(callback.filepath)
            yield Save("ModelCheckpoint", path, "", _load_of(path, frames), _gives_weights(path, frames))
    for frame in frames:
        for call in _calls_after(frame):
            path = _saved_by(call, frame, model)
            if path:
                read = _load_of(path, frames), _gives_weights(path, frames)
                yield Save("model.save", path, _site(frame, call), *read)


def _saves_all(callback: Any) -> bool:
    kind = keras.callbacks.ModelCheckpoint
    if not isinstance(callback, kind) or callback.save_weights_only:
        return False
    return KERAS.save_of_checkpoint.get(type(callback)) is KERAS.save_of_checkpoint.get(kind)


def _saved_by(call: ast.Call, frame: FrameType, model: Any) -> str:
    """Return the path that a call saves this model to, or "" for any other call."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _SAVERS or not call.args:
        return ""
    subject, given = (function.value, call.args) if function.attr == "save" else (call.args[0], call.args[1:])
    if not given or _value(subject, frame) is not model:
        return ""
    path = _path(given[0], frame)
    return path if path.endswith(_ENDINGS) and not path.endswith(_WEIGHTS) else ""


def _load_of(path: str, frames: Sequence[FrameType]) -> Load | None:
    for frame in frames:
        for call in _calls_after(frame):
            if _name_of(call) in _LOADERS and call.args and _path(call.args[0], frame) == path:
                words = {each.arg for each in call.keywords}
                has_objects = len(call.args) > 1 or bool(words & {"custom_objects", None}) or _names_a_scope(frame)
                return Load(_site(frame, call), not (words & {"compile", None} or len(call.args) > 2), has_objects)
    return None


def _gives_weights(path: str, frames: Sequence[FrameType]) -> bool:
    calls = ((call, frame) for frame in frames for call in _calls_after(frame))
    return any(
        _name_of(call) == "load_weights" and call.args and _path(call.args[0], frame) == path for call, frame in calls
    )


def _name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _site(frame: FrameType, node: ast.AST) -> str:
    return site_in(frame, getattr(node, "lineno", 0))


def _names_a_scope(frame: FrameType) -> bool:
    tree = tree_of(source_file(frame))
    names = (getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(tree or ast.Module([], [])))
    return any(name in _SCOPES for name in names)


def _calls_after(frame: FrameType) -> Iterator[ast.Call]:
    """Yield the calls after a frame's current line, in its function or file."""
    tree = tree_of(source_file(frame))
    if tree is None:
        return
    yield from _calls(_body(tree, frame), frame.f_lineno)


def _body(tree: ast.Module, frame: FrameType) -> Sequence[ast.AST]:
    if function_in(frame.f_code) == MODULE:
        return tree.body
    first = frame.f_code.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.lineno, *(each.lineno for each in node.decorator_list))
            if node.name == frame.f_code.co_name and first in lines:
                return node.body
    return ()


def _calls(nodes: Sequence[ast.AST], line: int) -> Iterator[ast.Call]:
    """Yield the calls after a line that are certain to run and whose errors are not caught."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Try)):
            continue
        if isinstance(node, ast.If) and not node.lineno <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.Call) and node.lineno > line:
            yield node
        yield from _calls(list(ast.iter_child_nodes(node)), line)


def _value(node: ast.AST, frame: FrameType) -> Any:
    """Look up a name or chain of attributes without running any of the script's code; return None if unknown."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return getattr(owner, "__dict__", {}).get(node.attr)
    return None


def _path(node: ast.AST, frame: FrameType) -> str:
    """Return the path that an expression evaluates to, or as much of its end as is known; "" if unknown."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _path(node.values[-1], frame)
    if isinstance(node, ast.BinOp):
        return _path(node.right, frame)
    if isinstance(node, ast.Call) and node.args:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return _path(node.args[-1], frame) if name in ("join", "Path", "str") else ""
    value = _value(node, frame)
    return os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""


_MOST_CHARACTERS = 240


class Trouble(NamedTuple):
    """Explains why a configuration cannot be written or read."""

    error: str
    """The name of the error's class."""
    words: str
    """The error message, on one line."""
    culprit: str = ""
    """The name of the user's class that needs to change, such as "Scale"; empty if unknown."""

    def __str__(self) -> str:
        return f"{self.error}: {self.words}"


def cannot_be_saved(model: Any, path: str) -> Trouble | None:
    """Return the reason why `model.save(path)` would fail, or None if the configuration can be written.

    A `.keras` file contains the configuration as JSON, including the compiled loss and optimizer. HDF5 is less strict
    about values. Saving only the weights does not require a configuration.
    """
    is_keras = path.endswith(".keras")
    try:
        with without_warnings():  # the user should see warnings only from their own call
            _write(model) if is_keras else _write_for_hdf5(model)
    except Exception as error:  # a custom get_config may raise anything
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
    """Extract an error's innermost message, without Keras' example and configuration dump."""
    text = str(error).rpartition("Exception encountered: ")[2]
    words = " ".join(text.partition("Example:")[0].partition("Full object config:")[0].split())
    words = words.removesuffix(" Please implement `get_config()`.")
    if len(words) > _MOST_CHARACTERS:
        words = words[:_MOST_CHARACTERS].rpartition(". ")[0] or shortened(words, _MOST_CHARACTERS)
    return Trouble(type(error).__name__, words.rstrip(". "), culprit)


def _culprit(model: Any) -> str:
    """Return the name of the user's layer, schedule, optimizer or model class that cannot be saved, or "" if none."""
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
        with without_warnings():
            _write(part)
    except Exception:
        return True
    return False
