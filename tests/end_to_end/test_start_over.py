"""`--start-over` starts every fit from the beginning and keeps everything saved before."""

from __future__ import annotations

import signal

import pytest


@pytest.mark.slow
def test_run_that_starts_over_keeps_old_checkpoints_and_is_labelled(work, same_bits):
    work.script("one_fit.py")
    plain = work.plain("one_fit.py", "plain.npz")
    assert plain.returncode == 0, plain.stderr[-2000:]
    running = work.start("--checkpoint-every=5", "one_fit.py", "ours.npz")
    running.wait_for_step(20)
    running.process.send_signal(signal.SIGTERM)
    stopped = running.finish()
    assert stopped.returncode == 75, stopped.stderr[-2000:]
    before = {path.name for path in stopped.folder.glob("checkpoints/step-*")}
    assert len(before) == 2
    words = ("--resume=run", "--start-over", "--checkpoint-every=5", "one_fit.py", "ours.npz")
    again = work.start(*words)
    again.wait_for_step(30, attempt=2)
    assert before < {path.name for path in again.folder.glob("checkpoints/step-*")}
    ours = again.finish()
    assert ours.returncode == 0, ours.stderr[-2000:]
    assert ours.events("resumed") == []
    assert ours.summary["exactness"] == "started-over"
    assert any(line.startswith("oomph: to improve it  leave --start-over out") for line in ours.said)
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
