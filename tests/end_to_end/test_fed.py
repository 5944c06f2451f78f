"""Inputs other than arrays: each resumes at the step that it had reached, whatever that takes."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_training_resumes_at_the_right_step_with_every_kind_of_input(work, same_bits):
    work.script("feeds.py")
    assert work.plain("feeds.py", "plain.npz").returncode == 0
    running = work.start("--checkpoint-every=5", "feeds.py", "ours.npz")
    for attempt, steps in ((1, 13), (2, 37), (3, 61)):  # in the second epoch of each of three fits of 24 steps
        running.kill_at_step(steps, attempt)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    resumed = [event.data for event in ours.events("resumed") if event.data["kind"] != "finished"]
    assert [data["fit"] for data in resumed] == [0, 1, 2]
    assert [data["kind"] for data in resumed] == ["replayed", "replayed", "exact"]
    assert ours.summary["steps"] == 72
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
