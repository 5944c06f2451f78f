"""Random numbers and data order continue as they would have, whatever their source."""

from __future__ import annotations

import numpy as np
import pytest

BY_CHANCE = "the order of later epochs, which has no seed"
OFTEN = ("draws", "mapped", "split")
SELDOM = ("batch", "numbered", "workers", "validated", "unknown")


def killed_in_each(work, kinds, every=5):
    """A script that fits once for each kind, and is killed in the second epoch of each."""
    work.script("order.py")
    running = work.start(f"--checkpoint-every={every}", "order.py", "ours.npz", *kinds)
    for number in range(len(kinds)):
        running.wait_for(lambda number=number: any(e.data["fit"] == number for e in running.journal("fit-started")))
        running.kill_at_step(48 * number + 20, attempt=number + 1)
    return running.finish()


@pytest.fixture(scope="module")
def plain(shared):
    """Return the file that an undisturbed run without oomph saved, for these kinds."""
    return lambda kinds: shared.undisturbed("order.py", *kinds)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [OFTEN, SELDOM], ids=["often", "seldom"])
def test_training_resumes_bit_identically_with_each_data_order(work, plain, kinds, same_bits):
    ours = killed_in_each(work, kinds)
    assert ours.returncode == 0, ours.stderr[-3000:]
    differ = []
    for kind in kinds:
        try:
            same_bits(work.folder / "ours.npz", plain(kinds), only=f"{kind}/")
        except AssertionError:
            differ.append(kind)
    assert differ == []
    assert [event.data["lost"] for event in ours.events("resumed") if event.data["kind"] != "finished"] == [[]] * len(
        kinds
    )
    assert ours.summary["exactness"] in ("verified", "replayed"), ours.summary["exactness_reasons"]
    assert ours.summary["restarts"] == len(kinds)


@pytest.mark.slow
def test_epoch_of_unknown_length_resumes_after_its_last_batch(work, plain, same_bits):
    """The only checkpoint follows the last of twelve batches, which Keras does not yet know to be the last."""
    ours = killed_in_each(work, ("unknown",), every=12)
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert [event.data["steps"] for event in ours.events("resumed")] == [12]
    same_bits(work.folder / "ours.npz", plain(("unknown",)))
    assert ours.summary["exactness"] in ("verified", "replayed")


@pytest.mark.slow
def test_unseeded_augmentation_is_not_labelled_equal(work):
    ours = killed_in_each(work, ("unseeded",))
    assert ours.returncode == 0, ours.stderr[-3000:]
    assert ours.summary["exactness"] == "not-equal"
    assert any("random numbers of the data pipeline" in reason for reason in ours.summary["exactness_reasons"])


@pytest.mark.slow
def test_unseeded_arrays_resume_in_a_new_order_without_an_equal_label(work):
    ours = killed_in_each(work, ("unseeded_arrays",))
    assert ours.returncode == 0, ours.stderr[-3000:]
    (resumed,) = ours.events("resumed")
    assert (resumed.data["kind"], resumed.data["lost"]) == ("exact", [{"code": "order-unseeded"}])
    assert (ours.summary["exactness"], ours.summary["exactness_reasons"]) == ("not-equal", [BY_CHANCE])


@pytest.mark.slow
def test_unseeded_dataset_split_is_the_same_after_a_restart(work):
    """Held-out samples stay held out."""
    ours = killed_in_each(work, ("unseeded_split",))
    assert ours.returncode == 0, ours.stderr[-3000:]
    first, second = (np.load(path) for path in work.folder.glob("held-out-*.npy"))
    np.testing.assert_array_equal(first, second)
    assert [event.data["lost"] for event in ours.events("resumed")] == [[]]
    assert ours.summary["exactness"] in ("verified", "replayed"), ours.summary["exactness_reasons"]


@pytest.mark.slow
def test_unseeded_eager_random_tensors_are_the_same_after_a_restart(work):
    """Killed after the second epoch, last saved during it: both attempts reach the end of that epoch."""
    work.script("order.py")
    running = work.start("--checkpoint-every=9", "order.py", "ours.npz", "unseeded_tensors")
    running.kill_at_step(25)
    ours = running.finish()
    assert ours.returncode == 0, ours.stderr[-3000:]
    first, second = (np.load(path) for path in work.folder.glob("drawn-*.npy"))
    np.testing.assert_array_equal(first, second)
    by_attempt = sorted((path.read_text().split() for path in work.folder.glob("epochs-*.txt")), key=len)
    assert [len(lines) for lines in by_attempt] == [2, 3]
    assert by_attempt[0][1] == by_attempt[1][0]
    assert ours.summary["exactness"] == "verified", ours.summary["exactness_reasons"]
