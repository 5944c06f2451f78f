"""A fit that the script itself resumes is known by its first epoch, and goes on from the steps done before it."""

from __future__ import annotations

import pytest

from oomph.journal.journal import Event
from oomph.protocol.progress import Progress
from oomph.resume.fit.reporting import begun_before, steps_before


def started(first_epoch: int, key: str = "a-0", fit: int = 0, attempt: int = 1) -> Event:
    return Event.named("fit-started", {"key": key, "fit": fit, "first_epoch": first_epoch}, attempt=attempt)


@pytest.mark.parametrize(
    ("earlier", "epoch", "fit"),
    [
        ([], 17, None),
        ([started(0)], 17, 0),
        ([started(5)], 5, None),
        ([started(5)], 6, 0),
        ([started(0), started(17, attempt=2)], 17, 0),
        ([started(0, key="b-0")], 17, None),
        ([started(0, fit=3)], 17, 3),
    ],
)
def test_a_fit_begun_at_a_later_epoch_is_recognised_as_resumed_by_the_script(earlier, epoch, fit):
    assert begun_before(earlier, "a-0", epoch) == fit


@pytest.mark.parametrize(
    ("epoch", "per_epoch", "steps"),
    [(17, 20, 340), (17, None, 340), (10, 20, 200), (18, 20, 360), (18, None, 348), (30, 20, 600)],
)
def test_steps_before_an_epoch_are_derived_from_the_last_position(epoch, per_epoch, steps):
    before = Progress(1, fit=0, epoch=17, step=8, steps=348)
    assert steps_before(before, 0, epoch, per_epoch) == steps


def test_steps_of_earlier_fits_are_included_in_the_steps_before_an_epoch():
    assert steps_before(Progress(1, fit=2, epoch=3, step=5, steps=1065), 2, 1, 20) == 1020


def test_steps_before_an_epoch_are_zero_without_an_earlier_position_in_the_fit():
    assert steps_before(None, 0, 17, 20) == 0
    assert steps_before(Progress(1, fit=1, epoch=17, step=8, steps=348), 0, 17, 20) == 0
    assert steps_before(Progress(1, fit=0, epoch=17, step=8, steps=10), 0, 1, 20) == 0
