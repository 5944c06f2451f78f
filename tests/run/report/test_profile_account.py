"""What of a profile is missing is said, with the reason."""

from __future__ import annotations

import pytest

from oomph.journal.events import (
    AttemptEnded,
    ProfileFailed,
    ProfileSaved,
    ProfileStarted,
    RunStarted,
    UnguardedTraining,
)
from oomph.journal.journal import Event
from oomph.run.report.profiled import failed_in_words, missed, not_recorded, saved_in_words


def events(*attempts):
    return [Event(fact, number) for number, facts in enumerate(attempts, 1) for fact in facts]


ASKED = RunStarted(profile=[10, 20])
WHOLE = ProfileSaved(first=11, last=20)


@pytest.mark.parametrize(
    ("attempts", "missing"),
    [
        ([[ASKED, ProfileStarted(first=11), WHOLE, AttemptEnded(steps=40)]], []),
        ([[ASKED, ProfileStarted(first=11)]], []),
        ([[ASKED]], []),
        ([[RunStarted(), AttemptEnded(steps=40)]], []),
        ([[ASKED, AttemptEnded(steps=8)]], ["nothing was recorded: the training ended after 8 steps, before step 11"]),
        ([[ASKED, AttemptEnded(steps=1)]], ["nothing was recorded: the training ended after 1 step, before step 11"]),
        (
            [[ASKED, AttemptEnded(steps=40)]],
            ["nothing was recorded: steps 11 to 20 were trained earlier, or in another process"],
        ),
        (
            [[ASKED, UnguardedTraining(kind="jax"), AttemptEnded()]],
            ["nothing was recorded: oomph does not see the steps of this training"],
        ),
        ([[ASKED, AttemptEnded(steps=8, returncode=1)], [ProfileStarted(first=11), WHOLE, AttemptEnded(steps=40)]], []),
        (
            [
                [ASKED, ProfileStarted(first=11), AttemptEnded(steps=15, returncode=-9)],
                [ProfileStarted(first=13), WHOLE],
            ],
            ["attempt 1 ended while it was recorded: that trace is lost"],
        ),
    ],
    ids=[
        "whole",
        "recording",
        "not-yet",
        "not-asked",
        "not-reached",
        "one-step",
        "earlier",
        "unguarded",
        "second-attempt",
        "killed",
    ],
)
def test_what_is_missing_is_said(attempts, missing):
    assert list(missed(events(*attempts))) == missing


def test_a_profiler_of_the_script_is_named_as_the_reason():
    failed = ProfileFailed(first=11, why="other-profiler")
    assert failed_in_words(failed) == "step 11 is not recorded, since another profiler is running in the script"
    assert list(not_recorded(events([ASKED, failed, AttemptEnded()]))) == [failed_in_words(failed)]


def test_a_part_of_the_window_is_told_with_the_reason():
    assert saved_in_words(WHOLE) == "recorded steps 11 to 20"
    assert saved_in_words(ProfileSaved(first=11, last=11, cut="ended")) == "recorded step 11: the training ended there"
    assert "a profiler of its own" in saved_in_words(ProfileSaved(first=11, last=14, cut="other-profiler"))
    assert saved_in_words(ProfileSaved(first=11, last=14, cut="of a later version")) == "recorded steps 11 to 14"


@pytest.mark.parametrize("asked", [[], [1], [1, 2, 3], ["1", "2"], [None, 2], [True, 5]])
def test_a_damaged_window_is_ignored(asked):
    damaged = Event.named("run-started", {"oomph": "1", "profile": asked})
    assert list(missed([damaged, Event(AttemptEnded(steps=3), 1)])) == []
