"""A script that finds its earlier output takes a different path: no fit is mistaken for the one before it."""

from __future__ import annotations

import pytest

FIRST = 30  # steps in the pretraining; the actual training has 75


@pytest.fixture(scope="module")
def plain(shared):
    return shared.undisturbed("pretrained.py")


@pytest.mark.slow
def test_main_training_is_never_replaced_by_its_pretraining(work, plain, same_bits):
    work.script("pretrained.py")
    running = work.start("--checkpoint-every=7", "pretrained.py", "ours.npz")
    running.kill_at_step(FIRST + 40)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain)
    (resumed,) = ours.events("resumed")
    assert (resumed.data["kind"], resumed.data["steps"] > FIRST) == ("exact", True)
    assert (ours.summary["exactness"], ours.summary["restarts"]) == ("verified", 1)
    assert not any("result restored" in line for line in ours.said)


@pytest.mark.slow
def test_fit_without_a_checkpoint_starts_over_and_is_not_labelled_equal(work, plain, load):
    work.script("pretrained.py")
    running = work.start("--checkpoint-every=1000", "pretrained.py", "ours.npz")
    running.kill_at_step(FIRST + 40)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert len(load(work.folder / "ours.npz")["losses"]) == len(load(plain)["losses"]), "trained, and not returned"
    assert ours.summary["exactness"] == "not-equal"
    assert any("fit 1 was finished by an earlier attempt" in reason for reason in ours.summary["exactness_reasons"])
