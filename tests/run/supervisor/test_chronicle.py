"""The supervisor's facts about a run, from its journal."""

from __future__ import annotations

import pytest

from oomph.journal.events import AttemptEnded, Decided
from oomph.journal.journal_reader import read_journal
from oomph.monitor.board import TrainingBoard
from oomph.run.supervisor.chronicle import Chronicle


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
def test_script_interrupted_at_once_is_not_reported_as_unguarded(tmp_path, seconds, ending, guarded):
    chronicle = Chronicle(tmp_path, 0)
    chronicle.write(AttemptEnded(returncode=-2, seconds=seconds))
    chronicle.write(Decided(action="finish", ending=ending))
    assert chronicle.guarded() is guarded


def test_owner_file_shows_that_oomph_was_loaded(tmp_path):
    (tmp_path / "owner-1").touch()
    assert Chronicle(tmp_path, 0).guarded()


@pytest.mark.parametrize(("limit", "peak"), [(9_000.0, 7_000), (None, None)])
def test_lost_attempt_keeps_its_measurements(tmp_path, limit, peak):
    """The memory of a CPU without a limit is no device's own."""
    board = TrainingBoard(tmp_path)
    values = {"step_seconds_total": 10.0, "input_wait_seconds_total": 1.0, "allocator_peak_bytes": 7_000.0}
    for key, value in (values | ({} if limit is None else {"allocator_limit_bytes": limit})).items():
        board.write(key, value)
    Chronicle(tmp_path, 1).close_lost_attempt()
    (ended,) = read_journal(tmp_path)
    assert (ended.fact.input_wait, ended.fact.device_peak_bytes) == (0.1, peak)
