"""Removes duplicate records from the event files of Keras' TensorBoard callback after a resume.

Whatever was logged after the checkpoint is logged again, into a file of the new process. So it is removed from the
files of dead attempts: those named with the attempt's process ID and created while it kept its journal, by the
kernel's clock, which nobody can set back. Whatever was logged before the checkpoint is on disk: the callback
flushes at the end of each batch and epoch that it logs. A folder named after the start time differs in each attempt and
is left alone.

Source: TensorFlow, core/util/event.proto, the format of TFRecord in core/lib/io/record_writer.h, the names of the files
in core/util/events_writer.cc; `as_default` in python/ops/summary_ops_v2.py, which flushes.
"""

from __future__ import annotations

import math
import os
import stat
import struct
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from oomph.files.birth import born_at
from oomph.journal.events import FitStarted, ProcessStarted
from oomph.journal.journal import Event, pairs, read_journal
from oomph.keras_bridge.names.keras3 import KERAS

_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 4
_LATEST_NS = 60_000_000_000
"""An event file may be created this many nanoseconds after the journal's last event."""


def drop_repeated(callbacks: list[Any], run_dir: Path | None, attempt: int, fit: int, taken_at: float | None) -> None:
    """Remove from the callbacks' folders what earlier attempts logged and this one will log again.

    Args:
        callbacks: the callbacks of the fit that begins.
        run_dir: its journal lists the processes of earlier attempts; only their files are touched.
        taken_at: when the checkpoint to resume from was taken, in seconds since 1970; None when the fit starts over.
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
        is_open_here = writer == os.getpid() and made_at >= began - 1  # in a container every attempt may have its pid
        attempts = {number for pid, number in dead if pid == writer}
        if moment is not None and not is_open_here and any(_is_of(path, run_dir, number) for number in attempts):
            _drop_after(path, moment)


def _is_of(path: Path, run_dir: Path, attempt: int) -> bool:
    """True if the file was created while this attempt ran, by kernel times, which a copied journal cannot fake."""
    journal = run_dir / "journal" / f"{attempt}-0-script.jsonl"
    begin, born = born_at(journal), born_at(path)
    try:
        last = os.lstat(journal).st_ctime_ns
        is_file = stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
    return is_file and begin is not None and born is not None and begin <= born <= last + _LATEST_NS


def tell_step(callback: Any) -> None:
    """Set the step of the callback's writer again.

    The callback set it before its state was restored, when the number counted from the start of this process.
    """
    if _is_tensorboard(callback):
        try:
            KERAS.pop_writer.call(callback)
            KERAS.push_writer.call(callback, KERAS.train_writer.of(callback), KERAS.global_train_batch.of(callback))
        except (AttributeError, IndexError):
            pass  # another version of Keras


def _begin_of(fit: int, events: Sequence[Event]) -> float | None:
    """The time at which any attempt first began this fit."""
    return min((event.time for event, begun in pairs(events, FitStarted) if begun.fit == fit), default=None)


def _is_tensorboard(callback: Any) -> bool:
    return any(
        kind.__name__ == "TensorBoard" and kind.__module__.startswith("keras.") for kind in type(callback).__mro__
    )


def _origin_of(path: Path) -> tuple[int, int | None]:
    """The creation time and process ID in a file's name: events.out.tfevents.<time>.<host>.<pid>.<number>.v2."""
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
    """Each raw record and its content. Stops at a truncated last record, which a kill can leave."""
    while len(head := file.read(_LENGTH.size + _CHECKSUM_BYTES)) == _LENGTH.size + _CHECKSUM_BYTES:
        (length,) = _LENGTH.unpack_from(head)
        body = file.read(length + _CHECKSUM_BYTES)
        if len(body) < length + _CHECKSUM_BYTES:
            return
        yield head + body, body[:length]
