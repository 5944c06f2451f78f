"""A checkpoint that could not be restored is kept: retried, then the previous one, then an exit with all intact."""

from __future__ import annotations

import json
import os
import signal

import pytest

from oomph.checkpoint.container import read_checkpoint


@pytest.fixture(scope="module")
def plain(shared):
    configure(shared, 8)
    return shared.undisturbed("configured.py")


def configure(work, units: int) -> None:
    (work.folder / "configuration.json").write_text(json.dumps({"units": units}))


@pytest.fixture
def stopped(work):
    """A run that was preempted in its third epoch, with at least two checkpoints."""
    configure(work, 8)
    return work.preempted("configured.py", 23)


def resume(work, mishap: str = "", *options: str):
    (work.folder / "mishap").write_text(mishap)
    return work.oomph("--resume=run", *options, "configured.py", "ours.npz")


def checkpoints(ended) -> list[str]:
    """Return the names of the intact checkpoints."""
    return sorted(path.parent.name for path in ended.folder.glob("checkpoints/**/manifest.json"))


def assert_resumed_to_the_same_bits(work, plain, same_bits) -> None:
    ours = resume(work)
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    assert any(event.data["steps"] >= 20 for event in ours.events("resumed"))
    assert ours.summary["exactness"] in ("verified", "unverified"), ours.summary["exactness_reasons"]


@pytest.mark.slow
def test_brief_memory_shortage_only_delays_the_restore(work, stopped, plain, same_bits):
    ours = resume(work, "once")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert any("could not be restored" in line and "trying again" in line for line in ours.said)
    same_bits(work.folder / "ours.npz", plain)
    (resumed,) = ours.events("resumed")
    assert (resumed.data["kind"], resumed.data["steps"] >= 20) == ("exact", True)


@pytest.mark.slow
def test_lasting_memory_shortage_exits_with_75_and_keeps_checkpoints(work, stopped, plain, same_bits):
    before = checkpoints(stopped)
    ours = resume(work, "always")
    assert ours.returncode == 75, ours.stderr[-3000:]
    assert ours.own == "", "no traceback of ours"
    assert any("cannot be resumed now" in line for line in ours.said)
    assert checkpoints(ours) == before
    assert_resumed_to_the_same_bits(work, plain, same_bits)


@pytest.mark.slow
def test_unrestorable_checkpoint_falls_back_to_the_previous_one(work, stopped, plain, same_bits):
    ours = resume(work, "broken")
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert any("using the previous one" in line for line in ours.said)
    same_bits(work.folder / "ours.npz", plain)
    assert ours.summary["exactness"] == "verified"


@pytest.mark.slow
def test_run_without_a_restorable_checkpoint_exits_with_93_and_keeps_all(work, stopped, plain, same_bits):
    before = checkpoints(stopped)
    ours = resume(work, "all broken")
    assert ours.returncode == 93, ours.stderr[-3000:]
    assert any("cannot be resumed: checkpoint" in line for line in ours.said)
    assert checkpoints(ours) == before
    assert_resumed_to_the_same_bits(work, plain, same_bits)


@pytest.mark.slow
def test_edited_configuration_is_refused_until_the_edit_is_undone(work, stopped, plain, same_bits):
    before = checkpoints(stopped)
    configure(work, 9)
    refused = resume(work)
    assert refused.returncode == 93, refused.stderr[-3000:]
    assert refused.own == ""
    (refusal,) = [line for line in refused.said if "cannot be resumed" in line]
    assert "[6, 8]" in refusal
    assert "[6, 9]" in refusal
    assert checkpoints(refused) == before
    configure(work, 8)
    assert_resumed_to_the_same_bits(work, plain, same_bits)


@pytest.mark.slow
def test_start_over_keeps_old_checkpoints_until_the_run_finishes(work, stopped):
    old = set(checkpoints(stopped))
    configure(work, 9)
    running = work.start("--resume=run", "--start-over", "--checkpoint-every=5", "configured.py", "ours.npz")
    running.wait_for_step(23, attempt=2)
    os.kill(running.process.pid, signal.SIGTERM)
    again = running.finish()
    assert again.returncode == 75, again.stderr[-3000:]
    assert not again.events("resumed")
    now = set(checkpoints(again))
    assert old < now, "in a folder of their own"
    for path in again.folder.glob("checkpoints/**/manifest.json"):
        assert list(read_checkpoint(path.parent).read())
    last = resume(work)
    assert last.returncode == 0, last.stderr[-3000:]
    assert [event.data["steps"] >= 20 for event in last.events("resumed")] == [True]
