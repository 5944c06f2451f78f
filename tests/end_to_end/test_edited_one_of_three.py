"""One of three fits is edited between two attempts: the others are unaffected, and the edit is reported."""

from __future__ import annotations

import pytest


@pytest.fixture
def stopped(work):
    """Preempted in the second of the three."""
    return work.preempted("edits.py", 35)


def edited(work, old: str, new: str):
    text = (work.folder / "edits.py").read_text()
    assert text.count(old) == 1
    work.write(text.replace(old, new), "edits.py")
    expected = work.plain("edits.py", "plain.npz")
    assert expected.returncode == 0, expected.stderr[-3000:]
    ours = work.oomph("--resume=run", "edits.py", "ours.npz")
    assert ours.returncode == 0, ours.stderr[-3000:]
    return ours


@pytest.mark.slow
def test_interrupted_fit_resumes_with_the_edit(work, stopped, same_bits):
    """The edit changes the number of epochs; the result matches training with the new number bit for bit."""
    ours = edited(work, "epochs=4", "epochs=5")
    assert [event.data["kind"] for event in ours.events("resumed")] == ["finished", "exact"]
    assert any("edits.py was edited" in line and "epochs: 4 → 5" in line for line in ours.said)
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
    assert ours.summary["exactness"] == "not-equal", "to what the script was before"
    assert "epochs: 4 → 5" in ours.summary["exactness_reasons"]


@pytest.mark.slow
def test_edited_finished_fit_trains_again(work, stopped):
    ours = edited(work, "x[:, :1], batch_size=16, epochs=2", "x[:, :1], batch_size=16, epochs=3")
    assert any(
        "trains again, since it differs from the trained one" in line and "epochs: 2 → 3" in line for line in ours.said
    )
    assert [event.data["kind"] for event in ours.events("resumed")] == ["exact"]
    assert ours.summary["exactness"] == "not-equal", "the second has drawn after the first one's old number of epochs"
    found = ours.summary["exactness_reasons"]
    assert found == ["the state of fit 2 is from before fit 1 was edited", "edits.py was edited", "epochs: 2 → 3"]


@pytest.mark.slow
def test_edited_fit_that_has_not_started_trains_as_edited(work, stopped, same_bits):
    ours = edited(work, "x[:, 2:3], batch_size=16, epochs=2", "x[:, 2:3], batch_size=8, epochs=2")
    assert [event.data["kind"] for event in ours.events("resumed")] == ["finished", "exact"]
    same_bits(work.folder / "ours.npz", work.folder / "plain.npz")
