"""Saves and restores the state of callbacks and of Keras' History, and continues their logs.

For Keras' own callbacks and their subclasses, a table lists the counters. A user-defined callback with `get_state()`
and `set_state(state)` provides its own state. All of its other contents are inspected by type (`objects/`).

Events that the TensorBoard callback logged after the checkpoint are logged again, to the new process's own file. The
originals are therefore removed from the files of dead attempts: those whose names contain the attempt's process ID and
that were created while it was writing its journal, according to the kernel's clock, which cannot be set back.
Everything logged before the checkpoint is on disk, since the callback flushes at the end of each batch and epoch that
it logs. A folder named after the start time is different in each attempt and is left alone.

Source: TensorFlow: core/util/event.proto, the TFRecord format in core/lib/io/record_writer.h, the file names in
core/util/events_writer.cc, and `as_default` in python/ops/summary_ops_v2.py, which flushes.
"""

from __future__ import annotations

import math
import os
import stat
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.manifest import said
from oomph.files.birth import born_at
from oomph.journal.events import FitStarted, ProcessStarted
from oomph.journal.journal import Event, pairs, read_journal
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.objects.picture import lost_object
from oomph.protocol.reasons import Reason, because, method_failed
from oomph.resume.state import nested
from oomph.resume.state.training_state import Array, read_arrays
from oomph.script.opened_files import FileState, replace_file
from oomph.script.restorable import is_from_elsewhere, may_be_restored
from oomph.terminal.wrapping import shortened

_SCALARS = (bool, int, float, str, type(None))
_STATE = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": (
        "best",
        "epochs_since_last_save",
        *KERAS.epoch_of_checkpoint.names,
        *KERAS.last_batch_seen.names,
        *KERAS.batches_since_saving.names,
    ),
    "TensorBoard": (*KERAS.global_train_batch.names, *KERAS.global_test_batch.names),
    "SwapEMAWeights": KERAS.averages_in_model.names,
}
"""The state that Keras' callbacks keep from one epoch to the next; callbacks that aren't listed don't keep any.

LearningRateScheduler doesn't keep state either: it continues from the optimizer's learning rate.
"""
HISTORY = "history/"
"""The prefix of a History's array names in a checkpoint."""
Tell = Callable[[Reason], None]


def listed(callbacks: Any) -> list[Any]:
    """Return the user's callbacks as a list, given any form that Keras accepts."""
    if callbacks is None:
        return []
    if hasattr(callbacks, "callbacks"):
        return list(callbacks.callbacks)
    return list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]


def continue_logs(callbacks: list[Any], epoch: int, kept: Mapping[str, FileState]) -> None:
    """Make a resumed CSVLogger append to its file, after removing the lines from `epoch` on, which it writes again.

    Args:
        kept: the files at the time of the checkpoint, by path.
    """
    for callback in callbacks:
        if type(callback).__name__ == "CSVLogger" and _is_of_keras(callback):
            callback.append = True
            path = Path(os.path.abspath(callback.filename))
            state = kept.get(str(path))
            try:
                content = None if state is None or not state.lies_where_it_lay() else state.content
                if content is not None and may_be_restored(str(path)):
                    replace_file(path, content)
                else:
                    _drop_lines_from(path, callback.sep, epoch)
            except OSError:
                pass  # Keras will report the problem with the file


def _drop_lines_from(path: Path, separator: str, epoch: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)  # keeps the Windows line endings that Keras writes
    kept, last = list(lines), math.inf
    while kept:
        field = kept[-1].partition(separator.encode())[0].strip()
        if not field.isdigit() or not epoch <= int(field) < last:
            break  # not from this run: an earlier run may have written to the same file
        last = int(field)
        kept.pop()
    if len(kept) < len(lines):
        temporary = path.with_name(f"{path.name}.oomph")
        temporary.write_bytes(b"".join(kept))
        os.replace(temporary, path)


# -- saving -----------------------------------------------------------------------------------------------------------


def captured(callbacks: list[Any], tell: Tell) -> tuple[list[dict[str, Any]], list[Array]]:
    """Copy each callback's state: a JSON-ready part, and the arrays that belong to it.

    Args:
        tell: called with the reason if a callback's state cannot be read.
    """
    states, arrays = [], []
    for index, callback in enumerate(callbacks):
        found = dict(_counters(callback))
        entry: dict[str, Any] = {"class": type(callback).__name__, "state": found}
        for number, weight in enumerate(_best_weights(callback)):
            arrays.append(_copied(f"callback/{index}/{number}", weight))
        if _tells_its_state(callback):
            try:
                entry["own"], own = nested.encode(callback.get_state(), f"callback/{index}/state/")
                arrays += [_copied(name, value) for name, value in own.items()]
            except Exception as error:
                where, why = f"callback {type(callback).__name__}", shortened(f"{type(error).__name__}: {error}", 200)
                tell(because("state-not-saved", where=where, error=why))
        states.append(entry)
    return states, arrays


# -- resuming ---------------------------------------------------------------------------------------------------------


def restore(callbacks: list[Any], saved: list[dict[str, Any]], checkpoint: Checkpoint, tell: Tell) -> None:
    """Restore each callback's state; callbacks of the same class are matched by their order."""
    for callback, index in _matched(callbacks, saved):
        for name in _counted_by(callback):
            if name in saved[index]["state"]:
                setattr(callback, name, saved[index]["state"][name])
        _tell_step(callback)
        arrays = read_arrays(checkpoint, f"callback/{index}/")
        weights = [arrays[name] for name in sorted((n for n in arrays if n.isdigit()), key=int)]
        if weights and _keeps_best_weights(callback):
            callback.best_weights = weights
        if "own" in saved[index] and _tells_its_state(callback):
            if is_from_elsewhere():
                tell(lost_object(f"callback {type(callback).__name__}", "its own state, which was written elsewhere"))
                continue
            try:
                callback.set_state(nested.decode(saved[index]["own"], arrays, f"callback/{index}/"))
            except Exception as error:
                tell(method_failed(f"callback {type(callback).__name__}", "set_state", error))


def history_state(history: Any) -> tuple[dict[str, Any], list[Array], list[Reason]]:
    """Convert a History's epochs and values for a checkpoint: the JSON part, the arrays, and what cannot be saved."""
    series: list[Any] = []
    arrays, lost = [], []
    for number, (name, values) in enumerate(getattr(history, "history", {}).items()):
        try:
            document, own = nested.encode([name, values], f"{HISTORY}{number}/")
        except Exception as error:  # may also come from an object that cannot be inspected
            lost.append(because("history", name=name, error=shortened(str(error), 200)))
            continue
        series.append(document)
        arrays += [_copied(each, value) for each, value in own.items()]
    return {"epoch": [int(e) for e in getattr(history, "epoch", [])], "history": series}, arrays, lost


def restore_history(history: Any, checkpoint: Checkpoint) -> None:
    """Restore a History's epochs and values from a checkpoint."""
    if history is not None:
        saved, arrays = said(checkpoint.meta.history), read_arrays(checkpoint, HISTORY)
        history.epoch = list(saved["epoch"])
        history.history = dict(nested.decode(each, arrays, HISTORY) for each in saved["history"])


def _matched(callbacks: list[Any], saved: list[dict[str, Any]]) -> Iterator[tuple[Any, int]]:
    left = list(enumerate(saved))
    for callback in callbacks:
        index = next((i for i, entry in left if entry["class"] == type(callback).__name__), None)
        if index is not None:
            left = [(i, entry) for i, entry in left if i != index]
            yield callback, index


def _counters(callback: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each counter that a callback inherits from its Keras class."""
    for name in _counted_by(callback):
        value = _plain(vars(callback).get(name))
        if name in vars(callback) and isinstance(value, _SCALARS):
            yield name, value


def _counted_by(callback: Any) -> list[str]:
    """Return the names of the counters, the only attributes restored: a checkpoint must not choose output paths."""
    kinds = [kind for kind in type(callback).__mro__ if _is_from_keras(kind)]
    return [name for kind in kinds for name in _STATE.get(kind.__name__, ())]


def _best_weights(callback: Any) -> list[Any]:
    """Return the best weights that an EarlyStopping callback keeps."""
    weights = vars(callback).get("best_weights")
    return weights if _keeps_best_weights(callback) and isinstance(weights, list) else []


def _keeps_best_weights(callback: Any) -> bool:
    return any(kind.__name__ == "EarlyStopping" and _is_from_keras(kind) for kind in type(callback).__mro__)


def _tells_its_state(callback: Any) -> bool:
    kind = type(callback)
    return callable(getattr(kind, "get_state", None)) and callable(getattr(kind, "set_state", None))


def _copied(name: str, value: Any) -> Array:
    array = np.array(value)
    return Array(name, array.dtype.name, array)


def _plain(value: Any) -> Any:
    """Convert NumPy scalars and one-element tensors to Python numbers, and larger arrays to lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return _plain(value.numpy()) if hasattr(value, "numpy") else value


def _is_of_keras(callback: Any) -> bool:
    return _is_from_keras(type(callback))


def _is_from_keras(kind: type) -> bool:
    return kind.__module__.startswith("keras.")


_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 4
_LATEST_NS = 60_000_000_000
"""The time, in nanoseconds, after the journal's last event in which an attempt may still create an event file."""


def drop_repeated_events(
    callbacks: list[Any], run_dir: Path | None, attempt: int, fit: int, taken_at: float | None
) -> None:
    """Remove from the callbacks' folders any events that earlier attempts logged and this attempt will log again.

    Args:
        callbacks: the callbacks of the fit that is starting.
        run_dir: the run directory, whose journal lists the processes of earlier attempts; only their files are changed.
        taken_at: when the checkpoint to resume from was taken, in seconds since 1970, or None if the fit starts over.
    """
    folders = {Path(callback.log_dir) for callback in callbacks if _is_tensorboard(callback)}
    if not folders or run_dir is None:
        return
    events = read_journal(run_dir)
    moment = _begin_of(fit, events) if taken_at is None else taken_at
    started = pairs(events, ProcessStarted)
    dead = [(process.pid, event.attempt) for event, process in started if event.attempt < attempt]
    began = min((e.time for e in events if e.attempt == attempt), default=math.inf)
    for path in [path for folder in folders for path in sorted(folder.glob("*/events.out.tfevents.*"))]:
        made_at, writer = _origin_of(path)
        is_open_here = writer == os.getpid() and made_at >= began - 1  # in a container, all attempts may share a PID
        attempts = {number for pid, number in dead if pid == writer}
        if moment is not None and not is_open_here and any(_is_of(path, run_dir, number) for number in attempts):
            _drop_after(path, moment)


def _is_of(path: Path, run_dir: Path, attempt: int) -> bool:
    """True if the file was created during this attempt. Uses the kernel's clock, which a copied journal cannot fake."""
    journal = run_dir / "journal" / f"{attempt}-0-script.jsonl"
    begin, born = born_at(journal), born_at(path)
    try:
        last = os.lstat(journal).st_ctime_ns
        is_file = stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
    return is_file and begin is not None and born is not None and begin <= born <= last + _LATEST_NS


def _tell_step(callback: Any) -> None:
    """Set the step of the callback's writer again.

    The callback first set it before its state was restored, when it still counted from the start of this process.
    """
    if _is_tensorboard(callback):
        try:
            KERAS.pop_writer.call(callback)
            KERAS.push_writer.call(callback, KERAS.train_writer.of(callback), KERAS.global_train_batch.of(callback))
        except (AttributeError, IndexError):
            pass  # a different version of Keras


def _begin_of(fit: int, events: Sequence[Event]) -> float | None:
    """Return the time at which this fit was first started in any attempt."""
    return min((event.time for event, begun in pairs(events, FitStarted) if begun.fit == fit), default=None)


def _is_tensorboard(callback: Any) -> bool:
    return any(
        kind.__name__ == "TensorBoard" and kind.__module__.startswith("keras.") for kind in type(callback).__mro__
    )


def _origin_of(path: Path) -> tuple[int, int | None]:
    """Parse the creation time and PID from a file's name: events.out.tfevents.<time>.<host>.<pid>.<number>.v2."""
    fields = path.name.split(".")
    if fields[-1] != "v2" or not fields[-3].isdigit() or not fields[3].isdigit():
        return 0, None
    return int(fields[3]), int(fields[-3])


def _drop_after(path: Path, moment: float) -> None:
    from tensorflow.core.util.event_pb2 import Event

    temporary, dropped = path.with_name(f"{uuid.uuid4().hex}.oomph"), False
    try:
        with path.open("rb") as file, temporary.open("wb") as kept:
            os.fchmod(kept.fileno(), stat.S_IMODE(path.stat().st_mode))
            for frame, content in _records(file):
                event = Event.FromString(content)
                if event.wall_time <= moment or event.HasField("file_version"):
                    kept.write(frame)
                else:
                    dropped = True
        if dropped:
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _records(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield each raw record and its payload, stopping at a truncated last record, which a kill can leave behind."""
    while len(head := file.read(_LENGTH.size + _CHECKSUM_BYTES)) == _LENGTH.size + _CHECKSUM_BYTES:
        (length,) = _LENGTH.unpack_from(head)
        body = file.read(length + _CHECKSUM_BYTES)
        if len(body) < length + _CHECKSUM_BYTES:
            return
        yield head + body, body[:length]
