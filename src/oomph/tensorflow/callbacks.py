"""The state of Keras' own callbacks and of History, saved and given back; the user's own callbacks are left alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from oomph.recovery.store import Checkpoint, CheckpointWriter
from oomph.tensorflow.state import raw_bytes

_SCALARS = (bool, int, float, str, type(None))
_STATE = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": (
        "best",
        "epochs_since_last_save",
        "_current_epoch",
        "_last_batch_seen",
        "_batches_seen_since_last_saving",
    ),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
}
"""What Keras' callbacks count or remember from one epoch to the next; those not named keep nothing."""


def listed(callbacks: Any) -> list[Any]:
    """The user's callbacks as a flat list, whatever form Keras accepts."""
    if callbacks is None:
        return []
    if hasattr(callbacks, "callbacks"):
        return list(callbacks.callbacks)
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]


def continue_logs(callbacks: list[Any], epoch: int) -> None:
    """A resumed CSVLogger appends to its file instead of emptying it; lines from `epoch` on will come again."""
    for callback in callbacks:
        if type(callback).__name__ == "CSVLogger" and _is_of_keras(callback):
            callback.append = True
            try:
                _drop_lines_from(Path(callback.filename), callback.sep, epoch)
            except OSError:
                pass  # Keras says itself what is wrong with the file


def _drop_lines_from(path: Path, separator: str, epoch: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not _is_from(line.partition(separator)[0], epoch)]
    if len(kept) < len(lines):
        temporary = path.with_name(f"{path.name}.oomph")
        temporary.write_text("".join(kept))
        os.replace(temporary, path)


def _is_from(first_field: str, epoch: int) -> bool:
    return first_field.strip().isdigit() and int(first_field) >= epoch


def states(callbacks: list[Any]) -> list[dict[str, Any]]:
    """What each callback of Keras itself remembers, fit for JSON."""
    return [{"class": type(c).__name__, "state": _scalars(c) if _is_of_keras(c) else {}} for c in callbacks]


def write_arrays(writer: CheckpointWriter, callbacks: list[Any]) -> None:
    """Append the weights that a callback keeps (EarlyStopping.best_weights)."""
    for index, callback in enumerate(callbacks):
        weights = getattr(callback, "best_weights", None)
        if _is_of_keras(callback) and isinstance(weights, list):
            for number, weight in enumerate(weights):
                array = np.asarray(weight)
                writer.add(f"callback/{index}/{number}", array.dtype.name, array.shape, raw_bytes(array))


def restore(callbacks: list[Any], saved: list[dict[str, Any]], checkpoint: Checkpoint) -> None:
    """Give each callback its state back; the list must be the one that was saved, class by class."""
    if [entry["class"] for entry in saved] != [type(c).__name__ for c in callbacks]:
        return
    for callback, entry in zip(callbacks, saved, strict=True):
        for name, value in entry["state"].items():
            setattr(callback, name, value)
    _restore_arrays(callbacks, checkpoint)


def history_state(history: Any) -> dict[str, Any]:
    """The epochs and values of a History, as Python floats."""
    values = {key: [_plain(v) for v in series] for key, series in getattr(history, "history", {}).items()}
    return {"epoch": [int(e) for e in getattr(history, "epoch", [])], "history": values}


def restore_history(history: Any, saved: dict[str, Any]) -> None:
    """Continue a History where it was."""
    if history is not None:
        history.epoch = list(saved["epoch"])
        history.history = {key: [_as_it_was(v) for v in series] for key, series in saved["history"].items()}


def _as_it_was(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value


def _restore_arrays(callbacks: list[Any], checkpoint: Checkpoint) -> None:
    found: dict[int, list[Any]] = {}
    for entry, data in checkpoint.read():
        if entry.name.startswith("callback/"):
            index = int(entry.name.split("/")[1])
            array = np.frombuffer(data, np.dtype(entry.dtype)).reshape(entry.shape).copy()
            found.setdefault(index, []).append(array)
    for index, weights in found.items():
        callbacks[index].best_weights = weights


def _scalars(callback: Any) -> dict[str, Any]:
    found = {name: _plain(vars(callback).get(name)) for name in _STATE.get(type(callback).__name__, ())}
    return {name: value for name, value in found.items() if name in vars(callback) and isinstance(value, _SCALARS)}


def _plain(value: Any) -> Any:
    """NumPy's scalars and one-element tensors as Python's numbers, larger ones as lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return _plain(value.numpy()) if hasattr(value, "numpy") else value


def _is_of_keras(callback: Any) -> bool:
    return type(callback).__module__.startswith("keras.")
