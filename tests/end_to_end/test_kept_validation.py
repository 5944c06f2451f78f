"""Validation within a fit: its random draws, and settings that callbacks change between epochs, also continue."""

from __future__ import annotations

import pytest


def killed(work, step, *options):
    work.script("validates.py")
    expected = work.plain("validates.py", "plain.npz", *options)
    assert expected.returncode == 0, expected.stderr[-3000:]
    running = work.start("--checkpoint-every=7", "validates.py", "ours.npz", *options)
    running.kill_at_step(step)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    return ours


@pytest.mark.slow
@pytest.mark.parametrize("step", [66, 26], ids=["second fit", "first fit"])
def test_validation_randomness_and_layer_settings_are_restored_after_a_kill(work, same_bits, step):
    """By the second fit, the first has finished: its validation and last setting are restored immediately."""
    ours = killed(work, step)
    assert ours.summary["exactness"] == "verified", ours.summary["exactness_reasons"]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")


@pytest.mark.slow
@pytest.mark.parametrize("step", [12, 26], ids=["before the second validation", "later"])
def test_batch_prefetched_before_validation_does_not_repeat_random_draws(work, same_bits, step):
    work.script("augments.py")
    expected = work.plain("augments.py", "plain.npz")
    assert expected.returncode == 0, expected.stderr[-3000:]
    running = work.start("--checkpoint-every=4", "augments.py", "ours.npz")
    running.kill_at_step(step)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.events("resumed")
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")


@pytest.mark.slow
def test_predictions_with_unrepeatable_randomness_are_labelled_not_equal(work):
    ours = killed(work, 26, "--predicts")
    assert ours.summary["exactness"] == "not-equal"
    assert any("whose state is inside TensorFlow's kernels" in reason for reason in ours.summary["exactness_reasons"])
