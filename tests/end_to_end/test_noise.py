"""Two computations of one step that differ by themselves: a resume is verified within that noise, and not beyond."""

from __future__ import annotations

import pytest


def killed(work, *options):
    work.script("noise.py")
    running = work.start("--checkpoint-every=8", "noise.py", "ours.npz", *options)
    running.kill_at_step(14)
    ended = running.finish()
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def test_noise_is_measured_and_told(work):
    ours = killed(work)
    assert ours.summary["exactness"] == "verified", ours.summary["exactness_reasons"]
    (reason,) = ours.summary["exactness_reasons"]
    assert "within this training's own noise of" in reason
    assert any(0 < event.data["noise"] < 1e-5 for event in ours.events("compared"))


@pytest.mark.slow
def test_a_difference_beyond_the_noise_is_no_noise(work):
    ours = killed(work, "--other")
    assert ours.summary["exactness"] == "not-equal"
    assert any("the same batch gives another result" in reason for reason in ours.summary["exactness_reasons"])
