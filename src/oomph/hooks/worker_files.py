"""Keeps the files of callbacks apart when several workers write them: only the chief's are left after a fit.

All workers have to save, since saving may read variables that they hold together. As TensorFlow's guide prescribes, the
chief writes where the script says, and each of the others to a temporary folder beside it.

Source: https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras, "Model saving and loading"
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

_BACKUP = "BackupAndRestore"
_WRITERS = {"ModelCheckpoint": "filepath", _BACKUP: "backup_dir", "CSVLogger": "filename", "TensorBoard": "log_dir"}
"""Maps each of Keras' callbacks that write to the attribute that says where."""


class _Move(NamedTuple):
    """The paths of a callback that lead elsewhere for a while."""

    callback: Any
    place: str
    folder: str
    """The temporary folder."""
    own: str
    """The place in it."""
    is_read: bool
    """True if the callback also reads what it finds at the place."""

    def paths(self) -> dict[str, str]:
        """Return the callback's attributes that are the place, or below it."""
        known = vars(self.callback).items()
        return {name: value for name, value in known if type(value) is str and f"{value}/".startswith(f"{self.place}/")}


@contextmanager
def kept_apart(worker: int | None, callbacks: Any) -> Iterator[None]:
    """Within the block, let callbacks write to temporary folders, which are deleted at its end.

    Args:
        worker: the number of this worker, or None if it is the chief or the only one.
    """
    moves = [] if worker is None else list(_moves(worker, getattr(callbacks, "callbacks", callbacks)))
    before = [(move, move.paths()) for move in moves]
    _remove(moves)
    try:
        for move, paths in before:
            tf.io.gfile.makedirs(move.folder)
            if move.is_read and tf.io.gfile.isdir(move.place):
                _copy(move.place, move.own)  # every worker begins with the chief's backup
            vars(move.callback).update({name: move.own + path[len(move.place) :] for name, path in paths.items()})
        yield
    finally:
        for move, paths in before:
            vars(move.callback).update(paths)
        _remove(moves)


def _moves(worker: int, callbacks: Any) -> Iterator[_Move]:
    import keras

    for callback in callbacks:
        for kind, attribute in _WRITERS.items():
            if isinstance(callback, getattr(keras.callbacks, kind)):
                place = str(getattr(callback, attribute)).rstrip("/")
                yield _Move(callback, place, *temporary(place, worker), is_read=kind == _BACKUP)


def temporary(place: str, worker: int) -> tuple[str, str]:
    """Return a worker's temporary folder for a place, named as by TensorFlow, and the place in it.

    The folder is above any part of the place that the callback fills in, such as `{epoch}`.
    """
    parts = place.split("/")
    fixed = next(index for index, part in enumerate(parts) if "{" in part or index == len(parts) - 1)
    folder = "/".join([*parts[:fixed], f"workertemp_{worker}"])
    return folder, "/".join([folder, *parts[fixed:]])


def _copy(place: str, own: str) -> None:
    tf.io.gfile.makedirs(own)
    for name in tf.io.gfile.listdir(place):
        if not tf.io.gfile.isdir(f"{place}/{name}"):
            tf.io.gfile.copy(f"{place}/{name}", f"{own}/{name}", overwrite=True)


def _remove(moves: list[_Move]) -> None:
    for folder in {move.folder for move in moves}:
        if tf.io.gfile.isdir(folder) and not os.path.islink(folder):
            tf.io.gfile.rmtree(folder)
