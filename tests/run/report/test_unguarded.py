"""The end of a run mentions what was only supervised, and does not call it faultless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oomph.journal.journal import Event
from oomph.protocol.replacements import SUPERVISED, UNGUARDED_KINDS, unguarded_in_words
from oomph.run.report.account import account
from oomph.run.report.causes import (
    NO_PYTHON,
    NO_RECORD,
    NONE_SEEN,
    NOT_ASKED,
    NOT_LOADED,
    RECOVERED,
    remedies,
    unguarded,
)
from oomph.run.report.labels import UNGUARDED, label_of
from oomph.run.report.summary import summarise


def worded(found):
    return found.label, tuple(map(str, found.reasons))


def event(name: str, **data: Any) -> Event:
    return Event.named(name, data, attempt=1)


STARTED, FIT = event("process-started"), event("fit-started", fit=0, guard="exact")
KERAS_2 = event("unguarded", kind="keras-2", site="train.py:12")


@pytest.mark.parametrize(
    ("events", "guard", "loaded", "said"),
    [
        ([STARTED, FIT], True, True, ""),
        ([STARTED], True, True, NONE_SEEN),
        ([], True, True, ""),
        ([STARTED], False, True, NOT_ASKED),
        ([], True, False, NOT_LOADED),
        ([STARTED, KERAS_2], True, True, unguarded_in_words("train.py:12", "keras-2")),
        ([STARTED, FIT, KERAS_2], True, True, unguarded_in_words("train.py:12", "keras-2")),
        ([STARTED, event("loop-seen", site="train.py:9", guarded=True)], True, True, ""),
    ],
)
def test_missing_guard_is_explained(events: Sequence[Event], guard: bool, loaded: bool, said: str) -> None:
    assert unguarded(events, guard, loaded) == said


def test_custom_loop_report_says_how_to_make_it_resumable() -> None:
    said = unguarded([STARTED, event("loop-seen", site="train.py:9")], guard=True, loaded=True)
    assert said.startswith("unguarded: the training loop at train.py:9 ")
    assert SUPERVISED in said
    assert "oomph.steps(" in said


@pytest.mark.parametrize("beside", [FIT, event("loop-seen", site="train.py:5", guarded=True)])
def test_custom_loop_alongside_guarded_training_is_labelled(beside: Event) -> None:
    events = [STARTED, beside, event("loop-seen", site="train.py:9"), event("attempt-ended", seconds=9.0)]
    reason = "the training loop at train.py:9 does not iterate over oomph.steps"
    assert worded(label_of(events, 0)) == (UNGUARDED, (reason,))
    said = unguarded(events, guard=True, loaded=True)
    first, second = account(summarise(events, 0), "runs/x", unguarded=said)
    assert first == "finished, 9 s"
    assert second.startswith(f"unguarded: {reason}, {SUPERVISED}. To have it guarded, make the loop at train.py:9 ")


def test_run_with_a_fault_mentions_the_unguarded_loop_once_with_advice() -> None:
    seen = event("loop-seen", site="train.py:9")
    killed = event("attempt-ended", returncode=-9, seconds=9.0, steps=45, saved=40)
    again = event("decided", action="restart", reason="killed", change=None, ending={})
    lost = [Event.named("decided", {"action": "restart", "change": {"name": "skip-batch", "value": "fit 1"}})]
    ended = Event.named("attempt-ended", {"returncode": 0, "seconds": 9.0, "steps": 60}, attempt=2)
    for more in ([], lost):
        events = [STARTED, FIT, seen, killed, again, *more, ended]
        said = unguarded(events, guard=True, loaded=True)
        text = "\n".join(account(summarise(events, 0), "runs/x", unguarded=said))
        assert text.count("unguarded") == text.count("train.py:9 does not iterate") == 1, text
        assert f"the result     {said}" in text
        assert ("; also: " in text) is bool(more)


def test_run_without_a_fault_mentions_the_unguarded_loop_on_its_second_line() -> None:
    events = [STARTED, FIT, event("loop-seen", site="train.py:9"), event("attempt-ended", seconds=9.0, steps=45)]
    said = unguarded(events, guard=True, loaded=True)
    first, second = account(summarise(events, 0), "runs/x", unguarded=said)
    assert (first, second) == ("finished, 45 steps, 9 s", said)


OUTSIDE = event("trained-outside-fit", site="train.py:7")


@pytest.mark.parametrize("beside", [[], [FIT], [event("oom"), event("recovered", during="train_on_batch")]])
def test_steps_outside_a_fit_are_reported_as_recovered_but_not_resumed(beside: Sequence[Event]) -> None:
    said = unguarded([STARTED, OUTSIDE, *beside], guard=True, loaded=True)
    assert said.startswith(f"train.py:7 trains outside a resumable fit: {RECOVERED}. To have it resumed, train with ")
    assert "oomph.steps(" in said


def test_steps_outside_a_fit_lost_in_a_restart_make_the_run_unguarded() -> None:
    why = ("train.py:7 trains outside a resumable fit",)
    assert worded(label_of([STARTED, OUTSIDE], 0)) == (UNGUARDED, why)
    assert label_of([STARTED, FIT, OUTSIDE], 0).label == "exact", "nothing was lost"
    again = [each._replace(attempt=2) for each in (STARTED, OUTSIDE)]
    assert worded(label_of([STARTED, FIT, OUTSIDE, *again], 0)) == (UNGUARDED, why)
    assert label_of([STARTED, FIT, *again], 0).label == "exact", "the first attempt had not come to it"


def test_guard_failure_is_reported_with_advice_at_the_end() -> None:
    said = unguarded([STARTED, event("guard-failed", reason="no TensorFlowTrainer.fit")], guard=True, loaded=True)
    assert said.startswith("unguarded: the guard failed: no TensorFlowTrainer.fit, ")
    assert said.endswith(
        ". To have it guarded, install the versions that oomph doctor asks for, or report the failure with the journal"
        " if it asks for none"
    )


def test_only_the_first_line_of_a_guard_error_is_shown() -> None:
    several = event("guard-failed", reason="ValueError: no such name:\n  File one\n  File two")
    said = unguarded([STARTED, several], guard=True, loaded=True)
    assert f"ValueError: no such name, {SUPERVISED}. " in said
    assert "File one" not in said
    assert unguarded([STARTED, event("guard-failed", reason="")], guard=True, loaded=True)


@pytest.mark.parametrize("kind", UNGUARDED_KINDS)
def test_unguarded_training_is_never_reported_as_faultless(kind: str) -> None:
    events = [STARTED, event("unguarded", kind=kind, site="train.py:12"), event("attempt-ended", seconds=9.0)]
    first, second = account(summarise(events, 0), "runs/x", unguarded=unguarded(events, guard=True, loaded=True))
    assert first == "finished, 9 s"
    assert second == unguarded_in_words("train.py:12", kind)
    assert UNGUARDED_KINDS[kind].instead in second


@pytest.mark.parametrize("kind", UNGUARDED_KINDS)
def test_unguarded_label_remedy_matches_the_report(kind: str) -> None:
    label, reasons = label_of([event("unguarded", kind=kind, site="train.py:12")], 0)
    assert [remedy.text for remedy in remedies(label, reasons)] == [UNGUARDED_KINDS[kind].instead]


def test_script_that_trains_nothing_is_reported_in_one_line() -> None:
    events = [STARTED, event("attempt-ended", seconds=9.0)]
    assert account(summarise(events, 0), "runs/x", unguarded=NONE_SEEN) == [
        f"finished without a fault, 9 s; {NONE_SEEN}"
    ]
    assert account(summarise(events, 3), "runs/x", unguarded=NONE_SEEN) == ["ended with exit code 3, 9 s"]


def test_unguarded_training_alongside_a_guarded_fit_makes_the_run_unguarded() -> None:
    assert label_of([FIT], 0).label == "exact"
    assert worded(label_of([FIT, KERAS_2], 0)) == (UNGUARDED, ("train.py:12 trains with Keras 2",))
    assert label_of([FIT, event("unguarded", kind="of-a-later-oomph", site="a.py:1")], 0).label == UNGUARDED


def test_command_without_python_gets_no_advice_about_python() -> None:
    said = unguarded([], guard=True, loaded=False, python=False)
    assert said == NO_PYTHON
    assert "its Python" not in said


def test_report_admits_unknowns_if_the_script_recorded_nothing() -> None:
    said = unguarded([], guard=True, loaded=True, recorded=False)
    assert said == NO_RECORD
    (line,) = account(summarise([event("attempt-ended", seconds=9.0)], 0), None, unguarded=said)
    assert line == f"finished without a fault, 9 s; {NO_RECORD}"
    assert unguarded([], guard=False, loaded=True, recorded=False) == NOT_ASKED


# -- training in a process that the script started ---------------------------------------------------------------------


def by_worker(name: str, **data: Any) -> Event:
    return event(name, **data)._replace(role="worker7")


KERNEL = by_worker("process-started", argv=["python", "-m", "ipykernel_launcher", "-f", "kernel.json"])
CHILD = by_worker("process-started", argv=["python", "-c", "from multiprocessing.spawn import spawn_main"])
IN_WORKER = by_worker("fit-started", fit=0, guard="exact", site="cell [3], line 1")
PAPERMILL = event("attempt-started", command=["--", "python", "-m", "papermill", "nb.ipynb", "out.ipynb"])


def test_notebook_that_trained_in_a_kernel_is_unguarded_and_gets_the_right_command() -> None:
    events = [PAPERMILL, STARTED, KERNEL, IN_WORKER, event("attempt-ended", seconds=9.0)]
    reason = "cell [3], line 1 trains in a Jupyter kernel, which oomph cannot restart"
    assert worded(label_of(events, 0)) == (UNGUARDED, (reason,))
    said = unguarded(events, guard=True, loaded=True)
    assert said == f"unguarded: {reason}: {RECOVERED}. To have it resumed, run the notebook itself: oomph run nb.ipynb"
    first, second = account(summarise(events, 0), "runs/x", unguarded=said)
    assert first.startswith("finished, 9 s")
    assert second == said


@pytest.mark.parametrize("words", [["--output", "o.ipynb", "nb.ipynb"], ["--output=o.ipynb", "nb.ipynb"]])
def test_right_command_names_the_notebook_rather_than_the_output_of_nbconvert(words: list[str]) -> None:
    nbconvert = event("attempt-started", command=["--", "jupyter", "nbconvert", "--execute", *words])
    events = [nbconvert, STARTED, KERNEL, IN_WORKER, event("attempt-ended", seconds=9.0)]
    assert unguarded(events, guard=True, loaded=True).endswith("oomph run nb.ipynb")


def test_training_in_child_processes_alone_is_unguarded() -> None:
    events = [STARTED, CHILD, IN_WORKER, event("attempt-ended", seconds=9.0)]
    reason = "cell [3], line 1 trains in a process that the script has started"
    assert worded(label_of(events, 0)) == (UNGUARDED, (reason,))
    assert unguarded(events, guard=True, loaded=True).startswith(f"unguarded: {reason}: {RECOVERED}")


def test_training_in_a_child_process_does_not_affect_the_scripts_label() -> None:
    events = [STARTED, CHILD, IN_WORKER, FIT, event("attempt-ended", seconds=9.0)]
    assert worded(label_of(events, 0)) == ("exact", ())
    assert unguarded(events, guard=True, loaded=True) == ""
