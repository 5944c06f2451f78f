"""What a script reads from a finished fit is also there after a restart, or the fit trains again and says why."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def plain(shared):
    """Return the file that an undisturbed run without oomph saved, for a script and its options."""
    return shared.undisturbed


def killed_in(running, fit: int, steps: int) -> None:
    running.wait_for(lambda: any(event.data["fit"] == fit for event in running.journal("fit-started")))
    running.kill_at_step(running.progress().steps + steps)


@pytest.mark.slow
def test_callbacks_and_history_of_finished_fits_are_restored(work, plain, load, same_bits):
    """A learning-rate finder, an EarlyStopping that sets the training length, a ModelCheckpoint for three fits."""
    work.script("finished.py")
    running = work.start("--checkpoint-every=6", "finished.py", "ours.npz")
    killed_in(running, fit=3, steps=9)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert load(work.folder / "ours.npz")["stopped"].tolist() == load(plain("finished.py"))["stopped"].tolist()
    same_bits(work.folder / "ours.npz", plain("finished.py"))
    assert [event.data["kind"] for event in ours.events("resumed")] == ["finished"] * 3 + ["exact"]
    assert ours.summary["exactness"] == "verified"


@pytest.mark.slow
def test_deleted_files_of_a_finished_fit_are_restored(work, plain, same_bits):
    work.script("wiped.py")
    running = work.start("--checkpoint-every=6", "wiped.py", "ours.npz")
    killed_in(running, fit=2, steps=20)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain("wiped.py"))
    assert [event.data["kind"] for event in ours.events("resumed")] == ["finished", "finished", "exact"]
    assert ours.summary["exactness"] == "verified"


@pytest.mark.slow
def test_finished_fit_whose_files_were_lost_trains_again_and_says_why(work, plain, same_bits):
    work.script("wiped.py")
    running = work.start("--checkpoint-every=6", "wiped.py", "ours.npz", "--large")
    killed_in(running, fit=2, steps=20)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    same_bits(work.folder / "ours.npz", plain("wiped.py", "--large"))
    assert [event.data["fit"] for event in ours.events("trains-again")] == [0, 1]
    assert (
        sum("was finished but trains again" in line and ".npy, which it wrote, is gone" in line for line in ours.said)
        == 2
    )
    assert ours.summary["exactness"] == "verified"


@pytest.mark.slow
def test_trusted_fit_whose_files_were_lost_is_neither_repeated_nor_labelled_equal(work, load):
    work.script("wiped.py")
    running = work.start("--checkpoint-every=6", "--trust-finished-fits", "wiped.py", "ours.npz", "--large")
    killed_in(running, fit=2, steps=20)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert not ours.events("trains-again")
    assert [event.data["kind"] for event in ours.events("resumed")] == ["finished", "finished", "exact"]
    assert load(work.folder / "ours.npz")["found"].size == 0, "which the label has to say"
    assert ours.summary["exactness"] == "not-equal"
    assert any(".npy, which it wrote, is gone" in reason for reason in ours.summary["exactness_reasons"])
