"""A run's story: each fault once, where it occurred, what was done, what it cost, and what would have helped."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.journal.journal import Event, read_journal
from oomph.run.report.account import account
from oomph.run.report.story import as_text, story_of
from oomph.run.report.summary import summarise

RUN = Path(__file__).parents[2] / "hostile" / "run"
PLACE = {"fit": 0, "epoch": 0, "step": 4}
OOM = "OOM when allocating tensor with shape[256,8]"


def event(event: str, /, attempt: int = 1, **data: Any) -> Event:
    return Event.named(event, data, attempt=attempt)


def decided(action: str, attempt: int = 1, **data: Any) -> Event:
    ending = {"stopped": False, "preempted": "", "place": [0, 7, 3], **data.pop("ending", {})}
    return event("decided", attempt, action=action, ending=ending, **data)


RECOVERED = [
    event("oom", batch=256, micro_batch=256, message=OOM, **PLACE),
    event("oom", batch=256, micro_batch=128, message=OOM, **PLACE),
    event("recovered", batch=256, micro_batch=64, seconds=21.0, **PLACE),
]
KILLED = [
    event("attempt-ended", returncode=-9, seconds=30.0, steps=45, saved=40),
    event("diagnosed", fault="killed", code="CRS201"),
    decided("restart", reason="killed", change=None),
]
FINISHED = [
    event("fit-finished", 2, steps=90, seconds=180.0, micro_batch=64),
    event("attempt-ended", 2, returncode=0, seconds=20.0, steps=90, saved=90),
    decided("finish", 2, exit_code=0, reason=""),
]


def told(events: list[Event], exit_code: int | None = 0, typed: tuple[str, ...] = ()):
    return story_of(events, summarise(events, exit_code), typed, ("train.py", "--epochs", "10"))


def test_each_fault_is_listed_once_with_its_remedy_and_cost():
    story = told([*RECOVERED, *KILLED, *FINISHED])
    assert story.outcome == "finished after 90 steps in 2 attempts, 50 s"
    assert [(i.fault, i.attempt, i.place, i.done, i.cost) for i in story.incidents] == [
        (
            "device-oom", 1, "fit 1, epoch 1, step 5", "trained the batch of 256 as micro-batches of 64",
            "21 s, 2 out-of-memory errors",
        ),
        ("killed", 1, "fit 1, epoch 8, step 4", "started attempt 2", "5 steps since the last checkpoint"),
    ]  # fmt: skip
    assert [incident.shown_by for incident in story.incidents] == [OOM, "death by signal 9"]


def test_fault_between_two_epochs_is_placed_at_the_end_of_the_first():
    between = decided("restart", ending={"place": [0, 9, 55], "epoch_over": True}, reason="killed", change=None)
    (incident,) = told([*KILLED[:2], between, *FINISHED]).incidents
    assert incident.place == "the end of epoch 10 of fit 1"


def test_saving_is_shown_as_a_pastable_command():
    repeated = [event("fit-started", 2), event("resumed", 2, steps=40)]
    slow = event("fit-finished", 2, steps=10, seconds=200.0)
    story = told([*RECOVERED, *KILLED, *repeated, slow, *FINISHED[1:]], typed=("--run-dir", "r", "--verify", "2"))
    assert [shlex.split(saving.command) for saving in story.savings] == [
        ["oomph", "run", "--micro-batch=64", "--verify", "2", "train.py", "--epochs", "10"],
        ["oomph", "run", "--checkpoint-every=25s", "--verify", "2", "train.py", "--epochs", "10"],
    ]


@pytest.mark.parametrize(("seconds", "count"), [(9.0, 0), (11.0, 1)])
def test_checkpoints_at_the_interval_that_was_used_are_not_suggested(seconds, count):
    """Five seconds is the shortest interval, and a kill costs at most one interval."""
    before = [event("fit-started", 0), event("attempt-ended", 0, returncode=-9, seconds=9.0, steps=50, saved=0)]
    again = [event("fit-started", 1), event("fit-finished", 1, steps=50, seconds=seconds)]
    assert [saving.command for saving in told([*before, *again]).savings] == [
        "oomph run --checkpoint-every=5s train.py --epochs 10"
    ] * count


def test_used_or_unhelpful_option_is_not_suggested():
    assert told([*RECOVERED, *KILLED, *FINISHED], typed=("--micro-batch=32",)).savings == ()
    quick = [*RECOVERED[:2], event("recovered", batch=256, micro_batch=64, seconds=0.4, **PLACE)]
    assert told([*quick, *FINISHED]).savings == ()


def test_micro_batch_that_changes_the_result_is_not_suggested():
    guard = {"kind": "approximate", "reason": "BatchNormalization sees each micro-batch alone"}
    probed = event("probed", fit=PLACE["fit"], samples=16, **guard)
    assert told([*RECOVERED, probed, *FINISHED]).savings == ()
    assert told([*RECOVERED, *FINISHED]).savings != ()


@pytest.mark.parametrize(
    ("elsewhere", "is_training"),
    [
        ({"during": "predict", "micro_batch": 32}, False), ({"during": "evaluate", "micro_batch": 32}, False),
        ({"piece": 32}, False), ({"during": "train_step", "micro_batch": 32}, True),
        ({"during": "train_on_batch", "micro_batch": 32}, True),
    ],
)  # fmt: skip
def test_training_micro_batch_is_not_suggested_for_other_calls(elsewhere, is_training):
    events = [RECOVERED[0], event("recovered", batch=256, seconds=21.0, **elsewhere)]
    savings = [saving.command for saving in told(events).savings]
    assert savings == ["oomph run --micro-batch=32 train.py --epochs 10"] * is_training
    assert summarise(events, 0).micro_batch == (32 if is_training else None)
    ((fitted, _),) = [(s.text, s) for s in told([*RECOVERED, *events]).savings]
    assert fitted.startswith(f"The {42 if is_training else 21} s spent finding a micro-batch")


def test_no_saving_is_suggested_for_forged_times_too_large_to_add():
    long = event("fit-finished", 2, steps=1, seconds=1e308)
    assert told([*KILLED, event("fit-started", 2), long, *FINISHED]).savings == ()


def test_repeated_steps_after_a_forged_attempt_still_suggest_a_saving():
    before = [event("fit-started", 0), event("attempt-ended", 0, returncode=-9, seconds=9.0, steps=50, saved=0)]
    again = [event("fit-started", 1), event("fit-finished", 1, steps=50, seconds=100.0)]
    (saving,) = told([*before, *again]).savings
    assert saving.command == "oomph run --checkpoint-every=25s train.py --epochs 10"


@pytest.mark.parametrize(
    ("events", "fault", "shown", "done"),
    [
        (
            [
                event("hang", seconds=61.0, line="train.py:9"),
                event("attempt-ended", returncode=-15, steps=4, saved=4),
                decided("restart", reason="hang", change={"name": "no-xla", "value": ""}),
            ],
            "hang", "no progress for 61.0 s, at train.py:9", "started attempt 2, with one change: without XLA",
        ),
        (
            [
                event("uncaught-exception", type="ValueError", message="no"),
                event("attempt-ended", returncode=1, steps=0, saved=0),
                event("diagnosed", fault="unrelated", code="PYT001"),
                decided("finish", exit_code=1, reason=""),
            ],
            "unrelated", "ValueError: no", "let the script exit",
        ),
        (
            [
                *RECOVERED[:1],
                event("attempt-ended", returncode=1, steps=0, saved=0),
                decided("give-up", exit_code=93, reason="one sample does not fit"),
            ],
            "device-oom", OOM, "gave up: one sample does not fit",
        ),
    ],
)  # fmt: skip
def test_ending_of_an_attempt_is_described_as_in_the_journal(events, fault, shown, done):
    (incident,) = told(events, 1).incidents
    assert (incident.fault, incident.shown_by) == (fault, shown)
    assert incident.done.startswith(done)


def test_requested_exit_is_not_a_fault():
    ended = [event("attempt-ended", returncode=-15, steps=9, saved=9), decided("requeue", ending={"stopped": True})]
    assert told(ended, 75).incidents == ()


def test_recorded_runs_story_agrees_with_its_summary():
    events = read_journal(RUN)
    summary = summarise(events, 0)
    story = story_of(events, summary, (), ("train.py",))
    assert {incident.fault for incident in story.incidents} == set(summary.faults)
    text = as_text(story, "run", "", str.upper, 80)
    assert text.startswith("run: finished after 64 steps in 2 attempts, 43 s\n  unverified: ")
    assert "1. DEVICE-OOM, attempt 1 at fit 2, epoch 1, step 1\n" in text
    assert "oomph run --micro-batch=8192 train.py\n" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("code", [None, 1, 75, 93, 130, 143])
def test_unfinished_run_has_no_result_in_its_story(code):
    began = event("fit-started", fit=0, guard="exact")
    ended = event("attempt-ended", returncode=-9, seconds=3.0, steps=5, saved=0)
    story = told([began, ended], code)
    assert story.result == ""
    assert "as if nothing had happened" not in as_text(story, "run", "", str, 80)


def test_story_result_matches_the_closing_lines():
    events = [event("fit-started", fit=0, guard="exact"), event("attempt-ended", returncode=0, seconds=3.0, steps=5)]
    assert told(events).result == "exact: as if nothing had happened, within rounding"
    not_finite = [*events, event("checkpoint-skipped", reason="dense/kernel is not finite")]
    result = told(not_finite).result
    assert result == "not finite: the weights contain NaN or infinity, or did during training"
    assert f"the result     {result}" in account(summarise([*not_finite, event("decided", 2)], 0), None)


@pytest.mark.parametrize(
    ("data", "place", "done"),
    [
        (PLACE | {"micro_batch": 64}, "fit 1, epoch 1, step 5", "trained the batch of 256 as micro-batches of 64"),
        (
            PLACE | {"micro_batch": 64, "guard": "smaller batches"}, "fit 1, epoch 1, step 5",
            "trained the batch of 256 as smaller batches of 64, each with its own update",
        ),
        (
            {"during": "predict", "micro_batch": 64}, "predict",
            "ran predict on the batch of 256 as micro-batches of 64",
        ),
        (
            {"piece": 32}, "map_batches",
            "applied the function to the batch of 256 in calls of at most 32 elements",
        ),
    ],
)  # fmt: skip
def test_wording_for_an_oversized_batch_depends_on_its_call(data, place, done):
    (incident,) = told([RECOVERED[0], event("recovered", batch=256, seconds=21.0, **data)]).incidents
    assert (incident.place, incident.done) == (place, done)


def test_wording_for_smaller_batches_outside_a_fit_depends_on_the_probe():
    on_batch = {"during": "train_on_batch", "batch": 256, "micro_batch": 64}
    events = [RECOVERED[0], event("probed", during="train_on_batch", kind="smaller batches")]
    (incident,) = told([*events, event("recovered", **on_batch)]).incidents
    assert incident.done == "ran train_on_batch on the batch of 256 as smaller batches of 64, each with its own update"


CAUGHT = event("oom", phase="elsewhere", site="train.py:8", message=OOM)


def test_error_caught_by_the_script_is_not_the_cause_of_a_kill():
    (killed,) = told([CAUGHT, *KILLED], 137).incidents
    assert (killed.fault, killed.shown_by) == ("killed", "death by signal 9")
    ended = event("attempt-ended", returncode=3, steps=5, saved=0)
    assert told([CAUGHT, ended], 3).incidents == (), "nothing names it as the end"


def test_uncaught_error_outside_a_guarded_step_is_the_cause_of_the_exit():
    ended = [event("attempt-ended", returncode=1, steps=5, saved=0), event("diagnosed", fault="device-oom")]
    (incident,) = told([CAUGHT, *ended], 1).incidents
    assert (incident.fault, incident.shown_by) == ("device-oom", OOM)
    later = event("uncaught-exception", type="ResourceExhaustedError", message="another")
    (incident,) = told([CAUGHT, event("fit-started", fit=0), later, *ended], 1).incidents
    assert incident.shown_by == "ResourceExhaustedError: another", "training went on after the first"


def test_error_caught_before_a_recovery_is_not_its_cause():
    (incident,) = told([CAUGHT._replace(fact=CAUGHT.fact.with_fields(message="its own")), *RECOVERED]).incidents
    assert (incident.shown_by, incident.cost) == (OOM, "21 s, 2 out-of-memory errors")


def skipped(**data: Any) -> Event:
    return event("checkpoint-skipped", reason="dense/kernel is not finite", **PLACE, **data)


@pytest.mark.parametrize(
    ("events", "done"),
    [
        ([skipped(kept="the checkpoint of step 40")] * 100, "kept the checkpoint of step 40"),
        ([skipped(kept="no checkpoint: there was none yet")], "kept no checkpoint: there was none yet"),
        (
            [skipped(kept="the checkpoint of step 40"), skipped(kept="the end state unchanged")],
            "kept the checkpoint of step 40, then the end state unchanged",
        ),
        ([skipped()], "took no checkpoint of it"),  # in a journal of an older oomph
    ],
)
def test_non_finite_state_is_one_fault_listing_the_kept_checkpoints(events, done):
    (incident,) = told(events).incidents
    assert (incident.fault, incident.place, incident.done) == ("nan-loss", "fit 1, epoch 1, step 5", done)


@given(st.lists(st.sampled_from([*RECOVERED, *KILLED, *FINISHED, event("hang"), event("oom"), event("recovered")])))
def test_journal_with_gaps_still_gives_a_story(events):
    story = told(events, None)
    found = len(story.incidents)
    assert as_text(story, "run", "", str, 80).startswith(f"run: {found or 'no'} fault{'s' * (found > 1)} found")


HOT = {"fault": "thermal-throttle", "subject": "GPU 0", "severity": "warning", "remedy": "Clean the fan"}


def found(message: str = "it runs at 60 % of its clock", attempt: int = 1, **data: Any) -> Event:
    return event("finding", attempt, message=message, **{**HOT, **data})


def test_each_finding_is_listed_once_with_its_last_message():
    story = told([found(), *KILLED, found("at 50 %", 2), found("7 GB more", 2, fault="memory-leak"), *FINISHED])
    assert [(one.fault, one.message) for one in story.findings] == [
        ("thermal-throttle", "at 50 %"),
        ("memory-leak", "7 GB more"),
    ]
    text = as_text(story, "RUN", "", str.upper, 80)
    assert "THERMAL-THROTTLE, GPU 0\n   shown by at 50 %\n   to do    Clean the fan\n" in text


def test_duration_of_a_finding_is_shown_where_it_is_known():
    ended = event("finding-ended", fault="thermal-throttle", subject="GPU 0", kind="", until=192.0)
    text = as_text(told([found()._replace(time=7.0), ended._replace(time=300.0)]), "RUN", "", str, 80)
    assert "   shown by it runs at 60 % of its clock\n   lasted   3 min 5 s\n   to do    Clean the fan\n" in text


def test_run_with_a_finding_is_not_reported_as_faultless():
    ended = event("attempt-ended", returncode=0, seconds=20.0, steps=9, saved=9)
    lines = account(summarise([found(), ended], 0), "RUN")
    assert not any("without a fault" in line for line in lines)
    assert lines[-1] == "found in the run: thermal-throttle (GPU 0); what to do: oomph explain RUN"


def test_notice_is_listed_but_not_counted_as_a_fault():
    events = [found(severity="notice"), event("attempt-ended", returncode=0, seconds=20.0, steps=9, saved=9)]
    assert "without a fault" in account(summarise(events, 0), "RUN")[0]
    assert len(told(events).findings) == 1


@pytest.mark.parametrize(("shares", "expected"), [([0.25], "input wait 25%"), ([0.0], "input wait 0%"), ([None], "")])
def test_last_line_states_a_large_input_wait(shares, expected):
    events = [
        event("attempt-ended", returncode=0, seconds=20.0, steps=9, saved=9, input_wait=share) for share in shares
    ]
    (line,) = account(summarise(events, 0), None)
    assert ("input wait" in line) == bool(expected)
    assert expected in line


def test_attempt_killed_together_with_oomph_is_an_incident():
    cut_off = event("attempt-ended", returncode=None, seconds=9.0, steps=45, saved=40)
    (incident,) = told([event("attempt-started"), cut_off, *FINISHED]).incidents
    assert (incident.fault, incident.attempt, incident.cost) == (
        "terminated from outside",
        1,
        "5 steps since the last checkpoint",
    )
    assert "kill -9" in incident.shown_by
    text = as_text(told([cut_off, *FINISHED]), "RUN", "", str, 80)
    assert "1. terminated from outside, attempt 1\n   shown by oomph was terminated too, perhaps by kill -9 of" in text


def test_probes_that_ran_out_of_memory_are_counted_with_their_time():
    failed = event("probe-failed", fit=0, epoch=0, step=1, samples=32, seconds=11.0, message="OOM when allocating")
    events = [
        event("fit-started", fit=0, guard="exact"),
        event("oom", fit=0, epoch=0, step=0, batch=32, micro_batch=32, seconds=10.0, message="OOM", phase="compute"),
        failed,
        event("recovered", fit=0, epoch=0, step=0, batch=32, micro_batch=11, ooms=1, seconds=24.0),
        failed,
        failed,
        event("attempt-ended", returncode=0, steps=80, saved=80, seconds=104.0),
    ]
    summary = summarise(events, exit_code=0)
    assert summary.faults == {"device-oom": 4}
    assert summary.seconds_recovering == 46.0
    story = story_of(events, summary, (), ("train.py",))
    assert [incident.cost for incident in story.incidents] == [
        "24 s, 2 out-of-memory errors",
        "22 s, 2 out-of-memory errors",
    ]


def test_probes_that_ran_out_of_memory_before_a_restart_are_counted():
    failed = event("probe-failed", fit=0, epoch=0, step=0, samples=8, seconds=11.0, message=OOM)
    events = [
        event("fit-started", fit=0, guard="exact"),
        event("oom", fit=0, epoch=0, step=0, batch=32, micro_batch=32, seconds=10.0, message=OOM, phase="compute"),
        failed,
        failed,
        event("restart-requested", fault="device-oom", reason="no memory for a probe", micro_batch=1),
        event("attempt-ended", returncode=75, steps=0, saved=0, seconds=50.0),
        event("diagnosed", fault="device-oom", code="OOM101"),
        decided("restart", reason="no memory for a probe"),
        *FINISHED,
    ]
    (incident,) = told(events).incidents
    assert incident.cost.endswith("3 out-of-memory errors")


def test_checkpoint_still_being_written_reduces_the_cost_of_a_kill():
    events = [
        event("fit-started", fit=0, guard="exact"),
        event("attempt-ended", returncode=-9, steps=60, saved=40, seconds=5.0),
        decided("restart", ending={"fault": "killed"}),
        event("diagnosed", fault="killed"),
        event("resumed", attempt=2, fit=0, epoch=2, step=10, steps=50, kind="exact", name="step-50"),
        event("attempt-ended", attempt=2, returncode=0, steps=100, saved=100, seconds=5.0),
    ]
    story = story_of(events, summarise(events, exit_code=0), (), ("train.py",))
    assert [incident.cost for incident in story.incidents] == ["10 steps since the last checkpoint"]


BROKEN = "tensors.bin does not match its checksum"
REFUSED = [event("checkpoint-refused", 2, name="step-000002", reason=BROKEN), event("fit-started", 2)]


def test_steps_lost_to_a_damaged_checkpoint_are_attributed_to_it():
    story = told([*KILLED, *REFUSED, event("resumed", 2, name="step-000001", steps=20), *FINISHED])
    (incident,) = story.incidents
    assert incident.cost == f"25 steps, since checkpoint step-000002 ({BROKEN}) was refused"
    (saving,) = story.savings  # 5 of the 25 were not saved
    assert "Part of the 10 s that 5 repeated steps took" in saving.text


def test_more_checkpoints_are_not_advised_when_only_a_damaged_one_cost_steps():
    killed = [event("attempt-ended", returncode=-9, seconds=30.0, steps=45, saved=45), *KILLED[1:]]
    assert told([*killed, *REFUSED, event("resumed", 2, name="step-000001", steps=20), *FINISHED]).savings == ()


def test_training_that_starts_over_without_a_readable_checkpoint_says_so():
    other = event("checkpoint-refused", 2, name="step-000001", reason=f"step-000001: {BROKEN}")
    (incident,) = told([*KILLED, other, *REFUSED, *FINISHED]).incidents
    assert incident.cost == (f"45 steps, since checkpoints step-000001 ({BROKEN}), step-000002 ({BROKEN}) were refused")


def test_refused_checkpoint_gets_a_line_in_the_account():
    events = [*KILLED, *REFUSED, event("resumed", 2, name="step-000001", steps=20), *FINISHED]
    lines = account(summarise(events, 0), "runs/1")
    assert f"not usable     checkpoint step-000002 ({BROKEN})" in lines


def test_checkpoint_restored_on_a_second_try_is_not_reported_as_refused():
    events = [*KILLED, *REFUSED, event("resumed", 2, name="step-000002", steps=40), *FINISHED]
    assert summarise(events, 0).refused == ()
    (incident,) = told(events).incidents
    assert incident.cost == "5 steps since the last checkpoint"


def test_death_of_a_notebooks_kernel_is_followed_by_the_next_kernel():
    """Nobody decides about it: the user runs the cells again."""
    cell = event("cell-started", cell=1, line="import keras")
    seen = [cell, *KILLED[:2]]
    (incident,) = told([*seen, event("fit-started", 2, fit=0)]).incidents
    assert (incident.fault, incident.done) == ("killed", "the next kernel went on as attempt 2")
    (alone,) = told(seen).incidents
    assert alone.done == "no other kernel has followed"
    unseen = [cell, event("attempt-ended", returncode=None, seconds=30.0, steps=45, saved=40)]
    (cut_off,) = told([*unseen, event("fit-started", 2, fit=0)]).incidents
    assert cut_off.done == "the next kernel went on as attempt 2"
