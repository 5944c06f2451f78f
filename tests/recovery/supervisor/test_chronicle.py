"""What the supervisor can tell of a run from its journal."""

from __future__ import annotations

import pytest

from oomph.journal.events import AttemptEnded, Decided
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
def test_a_script_that_somebody_ended_at_once_is_not_called_unguarded(tmp_path, seconds, ending, guarded):
    chronicle = Chronicle(tmp_path, 0)
    chronicle.write(AttemptEnded(returncode=-2, seconds=seconds))
    chronicle.write(Decided(action="finish", ending=ending))
    assert chronicle.guarded() is guarded


def test_an_owner_shows_that_oomph_was_loaded(tmp_path):
    (tmp_path / "owner-1").touch()
    assert Chronicle(tmp_path, 0).guarded()
