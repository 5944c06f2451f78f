"""FitObjects: the Python objects around one fit, inspected when it starts, at each checkpoint, and when it ends.

The objects behind the data are inspected separately: a pipeline that is replayed after a fault needs them as they were
when its iterator was created, and then advances them itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.graph import tensorflow_variable
from oomph.keras_bridge.models import optimizer_variables_of, optimizers_of
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.objects.picture import Changes, Picture, bytes_of, changes_between, is_large, size_of
from oomph.objects.restoration import Restoration
from oomph.process.available_memory import available_bytes
from oomph.protocol.reasons import Reason
from oomph.resume.state.training_state import Array
from oomph.resume.training.call_place import plain

_DATA = ("x", "y", "sample_weight", "class_weight")
_VALIDATION = ("validation_data",)
_SECONDS = 1.0
_MOST_SETTINGS = 300
_COPIED_BYTES, _COPIED_SHARE = 1 << 30, 0.1
"""The maximum size of the copies of the arrays behind the data: in bytes, and as a share of the free memory."""
_KEPT_BYTES = 16 << 20
"""Arrays of up to this many bytes are copied when a fit starts: callbacks may change them before it resumes."""

Roots = list[tuple[str, Any]]


class FitObjects:
    """Inspects and restores the user's objects that a fit may change.

    Args:
        arguments: the arguments passed to `fit`.
    """

    def __init__(self, model: Any, arguments: Mapping[str, Any], callbacks: list[Any]) -> None:
        self._model, self._callbacks = model, callbacks
        self._data: Roots = [(f"data {name}", arguments.get(name)) for name in _DATA]
        self._others: Roots = [
            *((f"callback {type(callback).__name__}", callback) for callback in callbacks),
            ("model", model),
            *(
                (f"layer {number} {type(layer).__name__}", layer)  # Keras numbers layer names per process
                for number, layer in enumerate(KERAS.flatten_layers.call(model))
            ),
            ("optimizer", model.optimizer),
            ("loss", model.loss),
            *((f"metric {type(metric).__name__}", metric) for metric in _metrics_of(model)),
            *((f"data {name}", arguments.get(name)) for name in _VALIDATION),
        ]
        self.at_entry = self._picture().let_go()
        """A picture of the objects before the fit, which the end state is compared with."""
        self._at_begin = self.at_entry
        """A picture of the objects after the callbacks' `on_train_begin`, which checkpoints are compared with."""
        self._kept: dict[str, Any] = {}

    # -- inspecting -------------------------------------------------------------------------------------------------

    def begin(self, to_be_resumed: bool) -> None:
        """Record the state after the user's `on_train_begin` callbacks."""
        self._at_begin = self._picture(self.at_entry)
        if to_be_resumed:
            self._kept = dict(self._arrays_of(self._at_begin))
        else:
            self._at_begin.let_go()

    def changed(self) -> Changes:
        """Return the objects' changes since the callbacks' `on_train_begin`."""
        return changes_between(self._at_begin, self._picture(self._at_begin))

    def changed_at_end(self) -> Changes:
        """Return the objects' changes since `fit` was called."""
        return changes_between(self.at_entry, self._picture(self._at_begin))

    def data_changed(self, before: Changes | None = None) -> Changes:
        """Return the changes to the objects behind the data since training started.

        Args:
            before: the changes at an earlier moment. Arrays that are still the same are not copied if copies of all
                would take much of the free memory.
        """
        changes = changes_between(self._at_begin, self._picture(self._at_begin, self._data))
        free = available_bytes()
        return changes.detached(before, _COPIED_BYTES if free is None else min(_COPIED_BYTES, _COPIED_SHARE * free))

    def fingerprints(self) -> dict[str, Any]:
        """Compute a short fingerprint of each data argument, leaving out any whose inspection ran out of time."""
        given = {name.removeprefix("data "): (name, thing) for name, thing in [*self._data, self._others[-1]]}
        found = {f"values of {short}": self._fingerprint(*each) for short, each in given.items() if each[1] is not None}
        return {name: fingerprint for name, fingerprint in found.items() if fingerprint}

    def settings(self) -> dict[str, str]:
        """Return the settings in the script's objects and globals before training, by path.

        Public attributes of the callbacks are left out, since they are separate facts.
        """
        callbacks = {id(callback) for callback in self._callbacks}
        found = (
            (f"{key}{where}", plain(value, name))
            for key, node in self.at_entry.graph.nodes.items()
            if type(self.at_entry.contents[key]) is tuple
            for name, where, value in node.kind.figures(self.at_entry.contents[key])
            if id(node.thing) not in callbacks or name.startswith("_")
        )
        return dict(itertools.islice(found, _MOST_SETTINGS))

    def _fingerprint(self, name: str, thing: Any) -> str:
        """Return an argument's fingerprint, or "" if time ran out, since each attempt would then get another result."""
        seen = "" if self.at_entry.graph.out_of_time else f"{type(thing).__name__} {self.at_entry.fingerprint(name)}"
        return plain(thing) or seen

    def _picture(self, before: Picture | None = None, roots: Roots | None = None) -> Picture:
        return Picture.of(
            roots or [*self._data, *self._others], before, frozenset(self._saved_elsewhere()), _SECONDS
        )  # fmt: skip

    def _saved_elsewhere(self) -> Iterator[int]:
        """Yield the `id`s of the variables that `training_state.py` saves and of the objects that own them."""
        model = self._model
        yield from (
            id(thing) for thing in (model, *KERAS.flatten_layers.call(model), *model.metrics, *optimizers_of(model))
        )
        for variable in (*model.variables, *model.metrics_variables, *optimizer_variables_of(model)):
            yield from (id(variable), id(tensorflow_variable(variable)))

    # -- restoring --------------------------------------------------------------------------------------------------

    def data_now(self, before: Picture | None = None) -> Picture:
        """Record the current state of the objects behind the data; an earlier picture shows which ones are new."""
        return self._picture(before or self._at_begin, self._data)

    def restore(self, changes: Changes, except_for: frozenset[str] = frozenset()) -> list[Reason]:
        """Restore the objects' state at a checkpoint, and undo any changes made only in this process.

        Returns the reasons for everything that could not be restored.
        """
        now = self._picture(self._at_begin)
        undo = self._undoing(now, changes)
        undone = Restoration(self._at_begin, undo, now, own=True)
        restored = Restoration(self._at_begin, changes, now)
        undone.apply(except_for)
        restored.apply(except_for)
        self._at_begin.let_go()
        return [*restored.lost, *undone.lost]

    def _undoing(self, now: Picture, changes: Changes) -> Changes:
        """Return the original state of the objects that have changed since training started but aren't in `changes`."""
        at_begin = self._at_begin.contents.items()
        undo = {
            key: content
            for key, content in at_begin
            if key not in changes.changed and now.contents.get(key, content) != content
        }
        return Changes(undo, arrays=self._kept)

    def restore_early(self, changes: Changes) -> None:
        """Restore everything except generators before the callbacks' first `on_epoch_begin`, which may read it."""
        Restoration(self._at_begin, changes, self._picture(self._at_begin)).apply_early()

    def restore_data(self, changes: Changes) -> list[Reason]:
        """Restore the objects behind the data, before an iterator over the data is created."""
        undone = Restoration(self._at_begin, self._undoing(self.data_now(), changes), own=True)
        restored = Restoration(self._at_begin, changes)
        undone.apply()
        restored.apply()
        return [*restored.lost, *undone.lost]

    def restore_end(self, changes: Changes) -> list[Reason]:
        """Restore the objects that a finished fit changed; return the reasons for any that could not be restored."""
        restored = Restoration(self.at_entry, changes, self._picture(self.at_entry))
        restored.apply()
        return restored.lost

    def _arrays_of(self, picture: Picture) -> Iterator[tuple[str, Any]]:
        for key, node in picture.graph.nodes.items():
            content = picture.contents[key]
            if is_large(content) and node.kind.in_place and _is_kept(content):
                yield key, bytes_of(node).copy()


def _is_kept(content: Any) -> bool:
    """True if an array is small enough to be copied."""
    try:
        return size_of(content) <= _KEPT_BYTES
    except TypeError:
        return False  # an array of records, which cannot be restored


def _metrics_of(model: Any) -> list[Any]:
    """Return the metrics that the script passed to `compile`, even if Keras has not built them yet."""
    compiled = KERAS.compile_metrics.get(model)
    given = [row.get(compiled) for row in (KERAS.user_metrics, KERAS.user_weighted_metrics)]
    return [metric for metric in tf.nest.flatten(given) if metric is not None and not isinstance(metric, str)]


def as_saved(changes: Changes, under: str) -> tuple[dict[str, Any], list[Array]]:
    """Convert changes to the form saved in a checkpoint: a JSON part, and arrays, which include long `bytes` values."""
    apart: list[bytes] = []
    names = sorted(changes.arrays)
    meta = changes.to_json(apart) | {"arrays": names, "apart": len(apart)}
    parts = [(changes.arrays[key], True) for key in names] + [(np.frombuffer(each, np.uint8), False) for each in apart]
    return meta, [Array(f"{under}{number}", "uint8", *part) for number, part in enumerate(parts)]


def from_meta(document: Any, arrays: Mapping[str, Any]) -> Changes:
    """Read the changes from a checkpoint. Raises ValueError if the document is malformed.

    Args:
        document: the JSON part.
        arrays: the checkpoint's arrays, by number.
    """
    if not isinstance(document, dict):
        raise ValueError("not the state of any objects")
    names, apart = document.get("arrays", []), document.get("apart", 0)
    if not isinstance(names, list) or type(apart) is not int or not 0 <= len(names) + apart <= len(arrays):
        raise ValueError("the state of objects lacks arrays")
    if not all(str(number) in arrays for number in range(len(names) + apart)):
        raise ValueError("the state of objects lacks arrays")
    parts = [arrays[str(number)] for number in range(len(names) + apart)]
    return Changes.from_json(
        document, dict(zip(map(str, names), parts, strict=False)), [part.tobytes() for part in parts[len(names) :]]
    )
