"""Hard-to-inspect objects neither stop nor slow down training, and the label does not hide what was lost."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def plain(shared):
    shared.script("difficult.py")
    ended = shared.plain("difficult.py", "plain.npz")
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


@pytest.mark.slow
def test_difficult_objects_are_handled_in_bounded_time_and_memory(work, plain, shared, same_bits):
    """Uncooperative, slow, lying, circular, deep, endless or huge objects; nested fits; two fits on one line."""
    work.script("difficult.py")
    running = work.start("--checkpoint-every=5", "difficult.py", "ours.npz")
    running.kill_at_step(60)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", shared.folder / "plain.npz")
    assert not ours.events("guard-failed"), "they do not make the guard fail either"
    (seconds, *asked), (plain_seconds,) = ours.stdout.split(), plain.stdout.split()
    assert asked == [], "no property that takes a minute was asked"
    assert float(seconds) < float(plain_seconds) + 40
    assert ours.summary["host_peak_bytes"] < 4e9, "nobody copies 10 GB"
    again = [event.data["reason"] for event in ours.events("trains-again")]
    assert len(again) == 2, "the two on one line are two"
    assert ours.summary["exactness"] == "not-equal", "a generator without a frame to go on with was not restored"
    assert any("generator" in reason for reason in ours.summary["exactness_reasons"])
