"""The supervisor's facts about a run, from its journal."""

from __future__ import annotations

import pytest

from oomph.checkpoint.container import CheckpointWriter, Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import CheckpointStore
from oomph.journal.events import AttemptEnded, Decided
from oomph.journal.journal_reader import read_journal
from oomph.monitor.board import TrainingBoard
from oomph.protocol.progress import ProgressBoard
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.settings import MachineAtStart


@pytest.mark.parametrize(
    ("seconds", "ending", "guarded"),
    [
        (0.4, {"interrupted": True}, True),
        (0.4, {"stopped": True}, True),
        (0.4, {"called_off": 15}, True),
        (0.4, {}, False),
        (3600.0, {"stopped": True}, False),
    ],
)
def test_script_interrupted_immediately_is_not_reported_as_unguarded(tmp_path, seconds, ending, guarded):
    chronicle = Chronicle(tmp_path, 0)
    chronicle.write(AttemptEnded(returncode=-2, seconds=seconds))
    chronicle.write(Decided(action="finish", ending=ending))
    assert chronicle.guarded() is guarded


def test_owner_file_shows_that_oomph_was_loaded(tmp_path):
    (tmp_path / "owner-1").touch()
    assert Chronicle(tmp_path, 0).guarded()


@pytest.mark.parametrize(("limit", "peak"), [(9_000.0, 7_000), (None, None)])
def test_lost_attempt_keeps_its_measurements(tmp_path, limit, peak):
    """The memory of a CPU without a limit is not device memory."""
    board = TrainingBoard(tmp_path)
    values = {"step_seconds_total": 10.0, "input_wait_seconds_total": 1.0, "allocator_peak_bytes": 7_000.0}
    for key, value in (values | ({} if limit is None else {"allocator_limit_bytes": limit})).items():
        board.write(key, value)
    Chronicle(tmp_path, 1).close_lost_attempt()
    (ended,) = read_journal(tmp_path)
    assert (ended.fact.input_wait, ended.fact.device_peak_bytes) == (0.1, peak)


def save(folder, steps: int) -> None:
    store = CheckpointStore(folder / "checkpoints")
    store.open()
    store.draft_step(Position(0, 0, steps, steps)).complete(Meta(), _write)


def _write(writer: CheckpointWriter) -> None:
    writer.add("model/0", "float32", (1,), bytes(4))


def begun(folder, attempts: int) -> Chronicle:
    chronicle = Chronicle(folder, attempts)
    chronicle.begin_attempt(["train.py"], "python", MachineAtStart(None))
    return chronicle


def saved(chronicle: Chronicle) -> int:
    progress = chronicle.script.progress()
    assert progress is not None
    return progress.saved


def test_checkpoint_newer_than_the_board_counts_as_saved(tmp_path):
    """The process was killed after it gave the checkpoint its final name and before it updated the board."""
    chronicle = begun(tmp_path, 0)
    ProgressBoard(tmp_path, 1).write(fit=0, epoch=1, step=1, steps=5, saved=1)
    save(tmp_path, 1)
    assert saved(chronicle) == 1
    save(tmp_path, 5)
    assert saved(chronicle) == 5


def test_checkpoint_of_an_earlier_attempt_does_not_count_as_saved(tmp_path):
    """--start-over leaves it in place, but the new training does not build on it."""
    save(tmp_path, 4)
    chronicle = begun(tmp_path, 1)
    ProgressBoard(tmp_path, 2).write(fit=0, epoch=1, step=1, steps=5, saved=0)
    assert saved(chronicle) == 0
    save(tmp_path, 2)
    assert saved(chronicle) == 2


def test_checkpoint_with_more_steps_than_were_run_does_not_count_as_saved(tmp_path):
    chronicle = begun(tmp_path, 0)
    ProgressBoard(tmp_path, 1).write(fit=0, epoch=1, step=1, steps=5, saved=1)
    save(tmp_path, 6)
    assert saved(chronicle) == 1


@pytest.mark.parametrize(("before", "counted"), [(False, 5), (True, 1)])
def test_checkpoint_newer_than_the_board_of_a_lost_attempt_counts_as_saved(tmp_path, before, counted):
    if before:
        save(tmp_path, 5)
    begun(tmp_path, 0)
    ProgressBoard(tmp_path, 1).write(fit=0, epoch=1, step=1, steps=5, saved=1)
    if not before:
        save(tmp_path, 5)
    Chronicle(tmp_path, 1).close_lost_attempt()
    (ended,) = [event.fact for event in read_journal(tmp_path) if isinstance(event.fact, AttemptEnded)]
    assert (ended.steps, ended.saved) == (5, counted)
