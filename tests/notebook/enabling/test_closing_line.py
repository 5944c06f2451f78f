"""The closing line of a fit in a notebook, derived from the events of its run."""

from __future__ import annotations

from oomph.journal.events import (
    AttemptEnded,
    CheckpointSaved,
    FitFinished,
    FitStarted,
    Oom,
    Recovered,
    RepeatCompared,
    Resumed,
)
from oomph.journal.fact import Fact
from oomph.journal.journal import Event
from oomph.notebook.closing_line import closing_line

STARTED = FitStarted(fit=0, key="f-0", site="cell [4], line 1", guard="exact", epochs=3)
FINISHED = FitFinished(fit=0, key="f-0", steps=96, reached=96, guard="exact", seconds=4.2)


def line(*attempts: list[Fact]) -> str:
    events = [Event(fact, number, 0, "script") for number, facts in enumerate(attempts, 1) for fact in facts]
    return closing_line(events, "f-0", 0)


def test_undisturbed_fit_is_summarised_in_one_line():
    assert line([STARTED, FINISHED]) == "fit 1 (cell [4], line 1): 3 epochs, 96 steps, 4 s; exact"


def test_resumed_fit_is_labelled_by_its_comparison():
    died = [STARTED, CheckpointSaved(fit=0, steps=40), AttemptEnded(returncode=None, steps=52, saved=40)]
    resumed = Resumed(fit=0, key="f-0", epoch=1, step=8, steps=40, kind="exact")
    finished = FitFinished(**{**dict(FINISHED.items()), "steps": 56})
    equal = RepeatCompared(fit=0, key="f-0", steps=12, covered=12, repeated=12, equal=True)
    assert line(died, [resumed, STARTED, equal, finished]) == (
        "fit 1 (cell [4], line 1): 3 epochs; resumed at epoch 2, step 9, for 56 steps, 4 s;"
        " 12 repeated steps compared equal; verified: the repeated steps match the original ones"
    )
    unequal = RepeatCompared(fit=0, key="f-0", steps=3, equal=False)
    assert "; not equal to undisturbed training" in line(died, [resumed, STARTED, unequal, finished])


def test_recovered_fit_says_how_its_batches_are_split():
    oom, recovered = Oom(fit=0, batch=2048), Recovered(fit=0, batch=2048, micro_batch=512)
    assert line([STARTED, oom, recovered, FINISHED]).endswith("; micro-batches of 512, the same global batch; exact")


def test_other_fits_do_not_change_the_label():
    other = [FitStarted(fit=1, key="g-0", guard="approximate", reason="coupled"), Recovered(fit=1, micro_batch=4)]
    elsewhere = [Oom(phase="elsewhere", site="cell [3], line 2")]
    assert line([*other, *elsewhere, STARTED, FINISHED]).endswith("4 s; exact")


def test_unfinished_fit_has_no_closing_line():
    assert line([STARTED]) == ""
