"""A run directory written elsewhere: its numbers are restored, but its strings and files are not."""

from __future__ import annotations

import shutil

import pytest

from oomph.checkpoint.origin import key_name


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("notes.py")


@pytest.fixture
def moved(work):
    """A preempted run whose directory has been moved to a different folder."""
    ended = work.preempted("notes.py", 24)
    (work.folder / "elsewhere").mkdir()
    shutil.move(ended.folder, work.folder / "elsewhere" / "run")
    return work.folder / "elsewhere"


def resume(work, moved):
    ended = work.oomph(f"--resume={moved / 'run'}", "notes.py", "ours.npz", run="elsewhere/run")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def test_strings_from_a_moved_run_are_not_restored(work, moved, plain, same_bits):
    ours = resume(work, moved)
    assert any("was not written here" in line and key_name() in line for line in ours.said), ours.said
    assert "said: nothing" in ours.stdout
    same_bits(work.folder / "ours.npz", plain)
    assert ours.summary["exactness"] == "not-equal", ours.summary
    assert "text from a checkpoint that was not written here" in str(ours.summary["exactness_reasons"])


@pytest.mark.slow
def test_everything_is_restored_when_the_key_is_next_to_the_run(work, moved, plain, same_bits):
    shutil.copy(work.folder / key_name(), moved / key_name())
    ours = resume(work, moved)
    assert not any("was not written here" in line for line in ours.said)
    assert "said: the first epoch is over" in ours.stdout
    same_bits(work.folder / "ours.npz", plain)
    assert ours.summary["exactness"] in ("verified", "unverified", "exact"), ours.summary
