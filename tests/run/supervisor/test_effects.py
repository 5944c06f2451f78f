"""Changes requested by a decision come from a journal, which anyone may have written."""

from __future__ import annotations

import pytest

from oomph.run.policy.ladder import Change, change_of
from oomph.run.supervisor.effects import most_samples, set_aside


def test_checkpoint_is_set_aside_by_name(tmp_path):
    (tmp_path / "checkpoints/step-1").mkdir(parents=True)
    set_aside(tmp_path / "checkpoints", "step-1")
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["refused-step-1"]


@pytest.mark.parametrize("name", ["../victim", "..", ".", "", "/", "a/../../victim"])
def test_nothing_outside_the_checkpoint_folder_is_set_aside(tmp_path, name):
    (tmp_path / "checkpoints/a").mkdir(parents=True)
    (tmp_path / "checkpoints/refused-..").mkdir()
    (tmp_path / "victim").mkdir()
    set_aside(tmp_path / "checkpoints", name)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "victim"}
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"a", "refused-.."}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("micro-batch", "0"),
        ("micro-batch", "-4"),
        ("micro-batch", "x"),
        ("micro-batch", "1" * 5000),
        ("micro-batch", 4),
        ("older-checkpoint", "../x"),
        ("older-checkpoint", ".."),
        ("rm", "-rf"),
        (None, "1"),
    ],
)
def test_invalid_change_reads_as_none(name, value):
    assert change_of(name, value) is None


def test_ladder_changes_are_read_back():
    changes = [("micro-batch", "8"), ("older-checkpoint", "step-000004-fit0-epoch2-step0"), ("no-xla", "")]
    assert [change_of(*each) for each in changes] == [Change(*each) for each in changes]
    assert most_samples([change_of("micro-batch", "8")]) == 8
