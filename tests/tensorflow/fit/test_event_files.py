"""Event files of earlier attempts: events that will be logged again are dropped, and everything else is kept."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.util.event_pb2 import Event as Record

from oomph.journal.events import FitStarted, ProcessStarted
from oomph.journal.journal import Journal
from oomph.resume.fit import callbacks
from oomph.resume.fit.callbacks import drop_repeated_events


@pytest.fixture
def board(tmp_path):
    callback = keras.callbacks.TensorBoard(str(tmp_path / "board"), write_graph=False)
    callback.set_model(keras.Sequential())
    return callback


def log(callback, *steps: int) -> None:
    with callback._train_writer.as_default():
        for step in steps:
            tf.summary.write("loss", tf.constant(0.5), step)


def logged(folder: Path) -> list[int]:
    records = tf.data.TFRecordDataset([str(path) for path in sorted(folder.glob("train/events*"))])
    return [event.step for data in records.as_numpy_iterator() if (event := Record.FromString(data)).summary.value]


def journal(run_dir: Path, attempt: int, pid: int) -> Journal:
    (run_dir / "journal").mkdir(parents=True, exist_ok=True)
    made = Journal(run_dir, attempt, "script")
    made.write(ProcessStarted(pid=pid))
    return made


def a_dead_attempt(callback, run_dir: Path) -> float:
    """Log 1 and 2, take a checkpoint, log 3 and half of 4, as in another process; return the checkpoint's time."""
    journal(run_dir, 1, 4711).write(FitStarted(fit=0))
    log(callback, 1, 2)
    taken_at = time.time()
    log(callback, 3, 4)
    callback._train_writer.close()
    (path,) = Path(callback.log_dir).glob("train/*")
    os.truncate(path, path.stat().st_size - 5)
    path.rename(str(path).replace(f".{os.getpid()}.", ".4711."))
    callback._writers = {}
    return taken_at


def test_logged_values_are_readable_while_the_event_file_is_open(board):
    log(board, 1, 2)
    assert logged(Path(board.log_dir)) == [1, 2]


def test_events_after_the_checkpoint_and_a_torn_record_are_dropped(board, tmp_path):
    taken_at = a_dead_attempt(board, tmp_path / "run")
    drop_repeated_events([board], tmp_path / "run", 2, 0, taken_at)
    assert logged(Path(board.log_dir)) == [1, 2]
    assert len(list(Path(board.log_dir).rglob("*"))) == 2, "the folder and one file in it"


def test_file_times_do_not_affect_which_events_are_dropped(board, tmp_path):
    """File times lag by milliseconds, are whole seconds on some disks, and are the server's own over NFS."""
    taken_at = a_dead_attempt(board, tmp_path / "run")
    (path,) = Path(board.log_dir).glob("train/*")
    os.utime(path, (taken_at - 1, taken_at - 1))
    drop_repeated_events([board], tmp_path / "run", 2, 0, taken_at)
    assert logged(Path(board.log_dir)) == [1, 2]


def test_a_restarted_fit_drops_only_its_own_events(board, tmp_path):
    journal(tmp_path / "run", 1, 4711)
    log(board, 0)
    a_dead_attempt(board, tmp_path / "run")
    (path,) = Path(board.log_dir).glob("train/*.4711.*")
    before = path.read_bytes()
    drop_repeated_events([board], tmp_path / "run", 2, 1, None)
    drop_repeated_events([], tmp_path / "run", 2, 0, None)
    drop_repeated_events([board], None, 2, 0, 0.0)
    assert path.read_bytes() == before
    drop_repeated_events([board], tmp_path / "run", 2, 0, None)
    assert logged(Path(board.log_dir)) == [0]


def test_files_of_this_attempt_and_other_processes_are_left_alone(board, tmp_path):
    journal(tmp_path / "run", 1, 4711)
    journal(tmp_path / "run", 2, os.getpid())
    log(board, 1)
    mine = tmp_path / "board" / "train" / "events.out.tfevents.mine"
    mine.write_bytes(b"x")
    drop_repeated_events([board], tmp_path / "run", 2, 0, 0.0)
    assert mine.read_bytes() == b"x"
    mine.unlink()
    (ours,) = Path(board.log_dir).glob("train/*.v2")
    assert logged(ours.parent.parent) == [1]


def test_open_event_file_with_a_dead_attempts_pid_is_left_alone(board, tmp_path):
    """In a container, every attempt may have the same pid, and anything written after a rename is lost."""
    journal(tmp_path / "run", 1, os.getpid())
    a_dead_attempt(board, tmp_path / "run")
    (dead,) = Path(board.log_dir).glob("train/*")
    dead.rename(str(dead).replace(".4711.", f".{os.getpid()}.").replace(dead.name.split(".")[3], "1000000000"))
    journal(tmp_path / "run", 2, os.getpid())
    log(board, 7)
    drop_repeated_events([board], tmp_path / "run", 2, 0, 0.0)
    log(board, 8)
    assert logged(Path(board.log_dir)) == [7, 8]


def test_forged_journal_does_not_change_older_event_files(board, tmp_path):
    """A foreign run directory may list every possible process."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    a_dead_attempt(board, elsewhere)
    time.sleep(0.05)
    shutil.copytree(elsewhere, run)
    os.utime(run / "journal" / "1-0-script.jsonl", (0, 0))
    (path,) = Path(board.log_dir).glob("train/*")
    before = path.read_bytes()
    drop_repeated_events([board], run, 2, 0, 0.0)
    assert path.read_bytes() == before


def test_event_files_from_a_later_training_run_are_left_unchanged(board, tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "_LATEST_NS", 0)
    journal(tmp_path / "run", 1, 4711).write(FitStarted(fit=0))
    time.sleep(0.05)
    a_dead_attempt(board, tmp_path / "elsewhere")
    (path,) = Path(board.log_dir).glob("train/*")
    before = path.read_bytes()
    drop_repeated_events([board], tmp_path / "run", 2, 0, 0.0)
    assert path.read_bytes() == before


def test_link_to_a_file_is_left_alone(board, tmp_path):
    a_dead_attempt(board, tmp_path / "run")
    (dead,) = Path(board.log_dir).glob("train/*")
    dead.rename(tmp_path / "kept")
    dead.symlink_to(tmp_path / "kept")
    before = (tmp_path / "kept").read_bytes()
    drop_repeated_events([board], tmp_path / "run", 2, 0, 0.0)
    assert dead.is_symlink()
    assert (tmp_path / "kept").read_bytes() == before


def test_unreadable_event_file_does_not_leave_a_temporary_file(board, tmp_path):
    a_dead_attempt(board, tmp_path / "run")
    (dead,) = Path(board.log_dir).glob("train/*")
    content = bytearray(dead.read_bytes())
    content[12:16] = b"\xff" * 4
    dead.write_bytes(content)
    with pytest.raises(DecodeError):
        drop_repeated_events([board], tmp_path / "run", 2, 0, 0.0)
    assert [path.name for path in dead.parent.iterdir()] == [dead.name]
