from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from oomph.journal.journal import Event
from oomph.protocol.reasons import because
from oomph.run.report.account import account
from oomph.run.report.attempts import repeats
from oomph.run.report.labels import ORDER, meaning
from oomph.run.report.story import as_text, story_of
from oomph.run.report.summary import Summary, improvement, result_in_words, summarise


def happened(attempt: int, name: str, **data: Any) -> Event:
    return Event.named(name, data, attempt=attempt)


def undisturbed() -> list[Event]:
    return [
        happened(1, "attempt-started"),
        happened(1, "fit-started", fit=0, guard="exact"),
        happened(1, "checkpoint", bytes=2048, seconds=0.5, steps=50),
        happened(1, "checkpoint", bytes=4096, seconds=0.5, steps=100),
        happened(1, "fit-finished", fit=0, steps=120, micro_batch=None, device_peak_bytes=3 << 30),
        happened(1, "attempt-ended", returncode=0, seconds=100.0, steps=120, saved=120, peak_rss_bytes=1 << 30),
        happened(1, "decided", action="finish", exit_code=0, reason=""),
    ]


def killed_once(kind: str | None = "exact", guard: str = "exact") -> list[Event]:
    events = [
        happened(1, "attempt-started"),
        happened(1, "fit-started", fit=0, guard=guard),
        happened(1, "attempt-ended", returncode=-9, seconds=10.0, steps=412, saved=400),
        happened(1, "diagnosed", fault="killed"),
        happened(1, "decided", action="restart", reason="killed"),
        happened(2, "attempt-started"),
        happened(2, "fit-started", fit=0, guard=guard),
    ]
    if kind is not None:
        events.append(happened(2, "resumed", fit=0, steps=400, kind=kind))
    return [*events, happened(2, "attempt-ended", returncode=0, seconds=10.0, steps=500, saved=500)]


def test_run_without_a_fault_is_summarised_in_one_line() -> None:
    summary = summarise(undisturbed(), 0)
    assert summary.steps == 120
    assert (summary.checkpoints.count, summary.checkpoints.bytes, summary.checkpoints.share) == (2, 4096, 0.01)
    assert account(summary, "runs/x") == [
        "finished without a fault, 120 steps, 1 min 40 s, 2 checkpoints of 4 KiB (1.0% of the time), "
        "peak device memory 3.0 GiB"
    ]


def restarted_by_request(after_steps: int = 0) -> list[Event]:
    """The probe of a micro-batch did not fit next to the full batch's leftovers: a new process started small."""
    oom = {"fit": 0, "epoch": 0, "step": 0, "phase": "compute", "message": "OOM", "seconds": 10.0}
    first = Event.named("oom", oom, attempt=1, time=100.0)
    asked = Event.named("restart-requested", {"fault": "device-oom", "micro_batch": 64}, attempt=1, time=144.0)
    return [
        happened(1, "attempt-started"),
        happened(1, "fit-started", fit=0, guard="exact"),
        first,
        asked,
        happened(1, "attempt-ended", returncode=75, seconds=60.0, steps=after_steps, saved=0),
        happened(1, "diagnosed", fault="device-oom"),
        happened(1, "decided", action="restart", micro_batch=64),
        happened(2, "attempt-started"),
        happened(2, "fit-started", fit=0, guard="exact"),
        happened(2, "fit-finished", fit=0, steps=120, micro_batch=64),
        happened(2, "attempt-ended", returncode=0, seconds=90.0, steps=120, saved=120),
        happened(2, "decided", action="finish", exit_code=0, reason=""),
    ]


def test_recovery_by_a_new_process_costs_the_time_until_it_was_requested() -> None:
    events = restarted_by_request()
    summary = summarise(events, 0)
    assert summary.seconds_recovering == 54.0
    (incident,) = story_of(events, summary, (), ()).incidents
    assert incident.cost == "54 s, 1 out-of-memory error"


def test_restart_before_the_first_step_does_not_count_as_starting_over() -> None:
    assert summarise(restarted_by_request(), 0).exactness == "exact"
    assert summarise(restarted_by_request(after_steps=3), 0).exactness == "started-over"


def test_suggested_command_shows_which_variables_the_run_had() -> None:
    read = happened(1, "environment-read", variables=["BATCH"])
    recovered = happened(1, "recovered", fit=0, epoch=0, step=0, batch=256, micro_batch=64, ooms=2, seconds=30.0)
    events = [*undisturbed()[:2], read, recovered, *undisturbed()[2:]]
    finished = Event.named("fit-finished", {"fit": 0, "steps": 120, "micro_batch": 64}, attempt=1)
    events = [finished if each.name == "fit-finished" else each for each in events]
    (saving,) = story_of(events, summarise(events, 0), (), ("train.py",)).savings
    assert saving.text.endswith("; set BATCH as in this run")


def test_peak_memory_comes_from_the_largest_fit_even_if_unfinished() -> None:
    *before, ended, decided = undisturbed()
    larger = happened(1, "attempt-ended", **{**ended.data, "device_peak_bytes": 5 << 30})
    assert summarise([*before, larger, decided], 1).device_peak_bytes == 5 << 30
    smaller = happened(1, "attempt-ended", **{**ended.data, "device_peak_bytes": 1 << 30})
    assert summarise([*before, smaller, decided], 0).device_peak_bytes == 3 << 30


@pytest.mark.parametrize("name", ["loop-seen", "trained-outside-fit", "unguarded"])
def test_peak_memory_is_not_shown_for_a_fit_alongside_other_training(name: str) -> None:
    summary = summarise([*undisturbed(), happened(1, name, site="train.py:9", kind="estimator")], 0)
    assert summary.device_peak_bytes is None
    assert any("peak memory 1.0 GiB" in line for line in account(summary, None))


def test_probe_inside_a_step_that_runs_out_of_memory_counts_once() -> None:
    """A process that starts with micro-batches probes before it computes."""
    probes = [happened(1, "probe-failed", seconds=10.0)._replace(time=time) for time in (62.9, 73.3)]
    inside = happened(1, "oom", seconds=62.5, phase="compute")._replace(time=113.9)
    assert summarise([*undisturbed(), *probes, inside], 93).seconds_recovering == 62.5
    later = happened(1, "oom", seconds=12.5, phase="compute")._replace(time=113.9)
    assert summarise([*undisturbed(), *probes, later], 93).seconds_recovering == 32.5


def test_unrecovered_out_of_memory_errors_count_as_lost_time() -> None:
    """The seconds of an error are counted from the start of its step."""
    failed = [happened(1, "oom", seconds=seconds, phase="compute") for seconds in (11.0, 12.0)]
    recovered = [*failed, happened(1, "recovered", seconds=13.0, micro_batch=8)]
    assert summarise([*undisturbed(), *recovered], 0).seconds_recovering == 13
    assert summarise([*undisturbed(), *recovered, *failed], 1).seconds_recovering == 13 + 12
    assert summarise([*undisturbed(), *failed, *failed, happened(2, "oom", seconds=5.0)], 93).seconds_recovering == 29


def test_steps_missing_due_to_exhausted_data_count_once_per_epoch() -> None:
    short = [
        happened(1, "data-ended", fit=0, epoch=2, step=4, wanted=8),
        happened(2, "data-ended", fit=0, epoch=2, step=4, wanted=8),  # the restart repeated the epoch
        happened(2, "data-ended", fit=0, epoch=5, step=0, wanted=8),
    ]
    summary = summarise([*undisturbed(), *short], 0)
    assert summary.steps_without_data == 12
    assert "120 steps (12 fewer than asked for: the data ran out), 1 min 40 s" in " ".join(account(summary, "runs/x"))


def test_script_error_is_reported_in_one_line_with_the_next_command() -> None:
    events = [happened(1, "attempt-started"), happened(1, "attempt-ended", returncode=3, seconds=1.0)]
    assert account(summarise(events, 3), "runs/x") == ["ended with exit code 3, 1 s"]
    events.append(happened(1, "diagnosed", fault="unrelated"))
    assert account(summarise(events, 3), "runs/x") == [
        "the script failed with its own error, exit code 3, 1 s; the cause: oomph explain runs/x"
    ]


def test_self_resuming_script_repeats_only_steps_after_its_position() -> None:
    begun = [happened(1, "fit-started"), happened(1, "attempt-ended", steps=360, saved=195)]
    again = [happened(2, "fit-started"), happened(2, "resumed-itself", steps=340)]
    again.append(happened(2, "attempt-ended", steps=600, saved=600))
    assert repeated_in([*begun, *again]) == 20


def repeated_in(events: list[Event]) -> int:
    return sum(each.steps for each in repeats(events).values())


def test_out_of_memory_error_caught_by_the_script_makes_the_run_not_equal() -> None:
    caught = happened(1, "oom", phase="elsewhere", site="tune.py:114")
    summary = summarise([*undisturbed()[:3], caught, *undisturbed()[3:]], 0)
    assert summary.exactness == "not-equal"
    assert "caught an out-of-memory error at tune.py:114" in summary.exactness_reasons[0]
    assert (
        summarise([*undisturbed()[:3], caught._replace(fact=caught.fact.with_fields(phase="step"))], 0).exactness
        == "exact"
    )


def test_result_of_a_script_that_caught_each_error_and_trained_nothing_says_so() -> None:
    caught = happened(1, "oom", phase="elsewhere", site="steps.py:32")
    summary = summarise([happened(1, "process-started"), caught, caught, happened(1, "attempt-ended")], 0)
    said = "the script caught an out-of-memory error at steps.py:32, outside a guarded step, and handled it itself"
    assert (summary.steps, summary.faults, summary.exactness) == (0, {"device-oom": 2}, "unguarded")
    assert result_in_words(summary) == said
    assert improvement(summary).startswith("if it is a step of a training, put @oomph.guard on it")
    assert result_in_words(summarise([caught, happened(1, "attempt-ended")], 1)) == ""


def test_repeated_fit_is_counted_even_before_one_that_was_returned() -> None:
    begun = [happened(1, "fit-started", fit=0), happened(1, "fit-finished", fit=0, reached=54, too_dear=True)]
    begun += [happened(1, "fit-started", fit=1), happened(1, "fit-finished", fit=1, reached=63)]
    begun.append(happened(1, "attempt-ended", returncode=-9, steps=63, saved=63))
    again = [happened(2, "fit-started", fit=0), happened(2, "resumed", fit=0, steps=27, kind="exact")]
    again += [happened(2, "fit-finished", fit=0, reached=54), happened(2, "resumed", steps=63, kind="finished")]
    again += [happened(2, "loop-seen", restored=9), happened(2, "attempt-ended", returncode=0, steps=108, saved=63)]
    assert summarise([*begun, *again], 0).steps_repeated == 27


def test_optimizer_trained_by_a_fit_does_not_count_as_restored_by_a_loop() -> None:
    begun = [happened(1, "fit-started", fit=0), happened(1, "attempt-ended", returncode=-9, steps=54, saved=1)]
    again = [happened(2, "fit-started", fit=0), happened(2, "resumed", fit=0, steps=1, kind="exact")]
    again += [happened(2, "fit-finished", fit=0, reached=54), happened(2, "loop-seen", restored=9)]
    again.append(happened(2, "attempt-ended", returncode=0, steps=108, saved=54))
    assert summarise([*begun, *again], 0).steps_repeated == 53


def test_repeated_steps_are_those_between_the_checkpoint_and_the_kill() -> None:
    assert repeated_in(killed_once()) == 12


def test_step_that_was_killed_before_it_was_counted_is_repeated_too() -> None:
    compared = happened(2, "compared", fit=0, steps=13, covered=13, repeated=13, equal=True)
    assert summarise([*killed_once()[:-1], compared, killed_once()[-1]], 0).steps_repeated == 13


def test_fully_compared_steps_are_not_reported_as_unrecorded() -> None:
    """The repeated fit matches; the other one resumed at its last step, so it is unverified."""
    begun = [happened(1, "fit-started", fit=0, key="a"), happened(1, "fit-finished", fit=0, key="a", too_dear=True)]
    begun += [happened(1, "fit-started", fit=1, key="b"), happened(1, "attempt-ended", steps=60, saved=60)]
    again = [happened(2, "fit-started", fit=0, key="a")]
    compared = happened(2, "compared", fit=0, key="a", steps=40, covered=40, repeated=40, equal=True)
    rest = [happened(2, "fit-finished", fit=0, key="a", reached=40), happened(2, "fit-started", fit=1, key="b")]
    rest += [happened(2, "resumed", fit=1, key="b", steps=60, kind="exact")]
    rest.append(happened(2, "attempt-ended", returncode=0, steps=90, saved=90))
    found = summarise([*begun, *again, compared, *rest], 0)
    assert (found.exactness, found.steps_repeated) == ("unverified", 40)
    assert [reason.code for reason in found.reasons] == ["none-repeated"]
    uncompared = summarise([*begun, *again, *rest], 0)
    assert [reason.code for reason in uncompared.reasons] == ["no-records"]


def test_without_a_checkpoint_all_steps_are_repeated() -> None:
    summary = summarise(killed_once(kind=None), 0)
    assert (summary.steps_repeated, summary.exactness) == (412, "started-over")


def test_attempt_that_dies_before_resuming_adds_no_repeated_steps() -> None:
    events = killed_once()
    before, after = events[:5], [e._replace(attempt=3) for e in events[5:]]
    stillborn = [happened(2, "attempt-started"), happened(2, "attempt-ended", returncode=-11, steps=0)]
    summary = summarise([*before, *stillborn, *after], 0)
    assert (summary.steps_repeated, summary.restarts) == (12, 2)


def test_label_is_reported_with_its_reasons_in_text_and_document() -> None:
    lost = happened(2, "resumed", fit=0, steps=400, kind="exact", lost=["attribute best of callback Own"])
    summary = summarise([*killed_once(kind=None)[:-1], lost], 0)
    assert (summary.exactness, summary.exactness_reasons) == ("not-equal", ("attribute best of callback Own",))
    assert json.loads(summary.to_json())["exactness_reasons"] == ["attribute best of callback Own"]
    ended = summarise([*killed_once(kind=None), lost], 0)
    rows = account(ended, "runs/x")
    assert "the result     not equal to undisturbed training; attribute best of callback Own" in rows


def test_state_that_was_not_restored_is_no_proof_of_a_difference() -> None:
    unknown = because("object", where="callback", what="Own", trouble="")
    assert meaning("not-equal", 3, [unknown]).startswith("may differ from undisturbed training")
    assert meaning("not-equal", 3, [unknown, because("epoch-restarted")]) == "not equal to undisturbed training"


def test_text_shows_only_the_first_reasons_but_the_document_shows_all() -> None:
    lost = happened(2, "resumed", fit=0, steps=400, kind="exact", lost=["a", "b", "c", "d"])
    summary = summarise([*killed_once(kind=None), lost], 0)
    (row,) = [row for row in account(summary, None) if row.startswith("the result")]
    assert row.endswith("; a; b; c; and 1 more")
    assert summary.exactness_reasons == ("a", "b", "c", "d")


@pytest.mark.parametrize("label", sorted(set(ORDER) - {"failed"}))
def test_only_an_exact_run_is_described_as_undisturbed(label: str) -> None:
    summary = replace(summarise(killed_once(), 0), exactness=label)
    (row,) = [row for row in account(summary, None) if row.startswith("the result")]
    assert ("as if nothing had happened" in row) is (label == "exact")
    assert row.removeprefix("the result     ").startswith(label.replace("-", " "))


def test_summary_lists_faults_remedies_and_cost() -> None:
    oom = [happened(1, "oom", fit=0), happened(1, "recovered", fit=0, micro_batch=8, seconds=11.0)]
    summary = summarise([*killed_once(), *oom], 0)
    assert summary.faults == {"device-oom": 1, "killed": 1}
    assert (summary.recoveries, summary.restarts, summary.micro_batch) == (1, 1, 8)
    text = "\n".join(account(summary, "runs/x"))
    assert "device-oom once, killed once" in text
    assert "micro-batches of 8, the same global batch, 1 restart" in text
    assert "12 of 500 steps repeated, 11 s recovering" in text
    assert "oomph explain runs/x" in text


def test_split_batches_outside_training_are_reported_without_a_micro_batch_size() -> None:
    oom = [happened(1, "oom", during="predict"), happened(1, "recovered", during="predict", micro_batch=8, seconds=2.0)]
    summary = summarise([*undisturbed(), *oom], 0)
    assert (summary.recoveries, summary.micro_batch) == (1, None)
    assert "what was done  split batches in evaluate, predict or map_batches" in account(summary, None)


def test_unfinished_run_gets_no_result_line() -> None:
    for code in (1, 75, 93, 130):
        text = "\n".join(account(summarise(killed_once("exact"), code), "runs/x"))
        assert "the result" not in text
        assert not any(word in text for word in ("exact", "verified"))
    own = [*killed_once("exact"), happened(2, "diagnosed", fault="unrelated")]
    rows = account(summarise(own, 1), "runs/x")
    assert any(row.startswith("the end        the script failed with its own error, exit code 1") for row in rows)


def test_batches_split_into_separate_updates_are_not_called_micro_batches() -> None:
    divided = happened(1, "recovered", fit=0, micro_batch=8, seconds=11.0)
    for code in (0, 1, 93):
        text = "\n".join(account(summarise([*killed_once(guard="smaller batches"), divided], code), "runs/x"))
        assert "batches of at most 8" in text
        assert "the same global batch" not in text


def test_run_killed_by_sigusr2_states_which_signals_trigger_a_save() -> None:
    summary = summarise([happened(1, "attempt-ended", returncode=-12, seconds=3.0)], 140)
    (line,) = account(summary, "runs/x", returncode=-12)
    assert line == "ended with exit code 140: SIGUSR2 stopped it; oomph saves on SIGTERM and SIGUSR1, 3 s"


def test_exit_code_140_of_a_script_is_not_attributed_to_a_signal() -> None:
    summary = summarise([happened(1, "attempt-ended", returncode=140, seconds=3.0)], 140)
    assert account(summary, "runs/x", returncode=140) == ["ended with exit code 140, 3 s"]


def test_stopped_run_states_how_many_steps_are_unsaved() -> None:
    events = [
        happened(1, "fit-started", fit=0, guard="exact"),
        happened(1, "checkpoint", seconds=0.1, bytes=10),
        happened(1, "attempt-ended", seconds=3.0, steps=30, saved=25),
    ]
    assert "; the last 5 steps are not saved; to resume: again" in account(summarise(events, 130), "runs/x", "again")[0]
    events[-1] = happened(1, "attempt-ended", seconds=3.0, steps=30, saved=30)
    assert "; all steps are saved; to resume: again" in account(summarise(events, 130), "runs/x", "again")[0]


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        (412, "the last 88 steps are not saved"),
        (500, "all steps are saved"),
        (None, "no checkpoint was taken, so there is nothing to resume from"),
    ],
)
def test_stopped_run_with_a_fault_reports_how_many_steps_are_unsaved(saved: int | None, told: str) -> None:
    checkpoint = [happened(2, "checkpoint", seconds=0.1, bytes=10)] * (saved is not None)
    stopped = happened(2, "attempt-ended", seconds=3.0, steps=500, saved=saved or 0)
    rows = account(summarise([*killed_once()[:-1], *checkpoint, stopped], 130), "runs/x", "again")
    (end,) = [row for row in rows if row.startswith("the end")]
    assert end.endswith(f"; {told}")
    assert rows[-1] == "next           again"


def test_steps_of_an_earlier_attempt_are_not_counted_as_lost_by_a_stop() -> None:
    """The attempt's own line already reported that 405 of 405 steps are saved."""
    checkpoint = happened(2, "checkpoint", seconds=0.1, bytes=10)
    stopped = happened(2, "attempt-ended", seconds=3.0, steps=405, saved=405)
    summary = summarise([*killed_once()[:-1], checkpoint, stopped], 75)
    assert (summary.steps, summary.steps_reached, summary.steps_saved) == (412, 405, 405)
    assert end_of(summary).endswith("; 405 of 412 steps are saved: an earlier attempt got further")
    idle = happened(3, "attempt-ended", seconds=1.0, steps=0, saved=0)
    assert summarise([*killed_once()[:-1], checkpoint, stopped, idle], 75).steps_reached == 405


def test_saved_run_reports_fits_that_will_train_again() -> None:
    short = [happened(2, "fit-finished", fit=number, steps=1, reached=412, too_dear=True) for number in (0, 1)]
    checkpoint = happened(2, "checkpoint", seconds=0.1, bytes=10)
    stopped = happened(2, "attempt-ended", seconds=3.0, steps=500, saved=500)
    for fits, told in (
        (1, "1 short fit trains again: its end state was too expensive to keep"),
        (2, "2 short fits train again: their end states were too expensive to keep"),
    ):
        summary = summarise([*killed_once()[:-1], *short[:fits], checkpoint, stopped], 75)
        assert end_of(summary).endswith(f"; all steps are saved, but {told}")


def end_of(summary: Summary) -> str:
    (end,) = [row for row in account(summary, "runs/x", "again") if row.startswith("the end")]
    return end


def test_stopped_run_shows_the_command_that_resumes_it() -> None:
    again = "oomph run --resume=runs/x train.py"
    assert account(summarise(undisturbed(), 130), "runs/x", again)[-1].endswith(f"; to resume: {again}")
    assert account(summarise(killed_once(), 130), "runs/x", again)[-1] == f"next           {again}"
    without = [event for event in undisturbed() if event.name != "checkpoint"]
    assert account(summarise(without, 130), "runs/x", again)[-1].endswith("so there is nothing to resume from")


def test_script_error_is_summarised_in_a_single_line() -> None:
    events = [happened(1, "attempt-started"), happened(1, "diagnosed", fault="unrelated")]
    summary = summarise(events, 1)
    assert summary.faults == {"unrelated": 1}
    assert len(account(summary, "runs/x")) == 1


def test_run_that_finished_after_giving_up_is_not_reported_as_having_given_up() -> None:
    events = [happened(1, "decided", action="give-up", reason="x"), happened(2, "decided", action="finish")]
    assert summarise(events, 0).gave_up == ""


def test_run_that_gave_up_states_the_reason() -> None:
    events = [*killed_once(), happened(2, "decided", action="give-up", reason="killed 4 times")]
    assert "killed 4 times" in "\n".join(account(summarise(events, 93), None))


def test_summary_document_has_a_schema_and_survives_json() -> None:
    document = json.loads(summarise(killed_once(), 0).to_json())
    assert document["schema"] == 1
    assert document["faults"] == {"killed": 1}
    assert document["checkpoints"]["count"] == 0


def test_summary_text_uses_singular_and_plural() -> None:
    once = replace(summarise(killed_once(), 0), steps=1)
    assert str(once) == "unverified: 1 step in 20 s, killed 1×, 0 recovered in the process, 1 restart"
    assert str(replace(once, steps=2, restarts=2)).endswith(" 2 restarts")


def test_empty_journal_gives_an_empty_summary() -> None:
    summary = summarise([], None)
    assert isinstance(summary, Summary)
    assert account(summary, None)


def test_repeated_non_finite_states_are_counted_as_one_fault():
    skipped = [Event.named("checkpoint-skipped", {"reason": "dense/kernel is not finite"})] * 3
    assert summarise(skipped, 0).faults == {"nan-loss": 1}


def test_preemption_is_reported_as_stopped_unless_the_run_gave_up():
    ended = Event.named("decided", {"action": "requeue", "reason": "preempted by SIGTERM"})
    for code, head in ((75, "stopped"), (93, "gave up")):
        told = account(summarise([ended], code), "there")
        assert any(line.startswith(f"{head} ") and "preempted by SIGTERM" in line for line in told), told


def test_attempts_that_ran_out_of_memory_are_counted_even_without_a_guard() -> None:
    ended = [happened(attempt, "diagnosed", fault="device-oom") for attempt in (1, 2, 3)]
    assert summarise(ended, 0).faults == {"device-oom": 3}
    assert summarise([happened(1, "oom"), happened(1, "oom"), *ended[:1]], 0).faults == {"device-oom": 2}


def loop_killed_once(restored: int) -> list[Event]:
    return [
        happened(1, "loop-seen", restored=0),
        happened(1, "attempt-ended", steps=11, seconds=1.0),
        happened(2, "loop-seen", restored=restored),
        happened(2, "attempt-ended", steps=30, seconds=1.0),
    ]


def test_restarted_loop_repeats_steps_but_a_restored_one_does_not() -> None:
    anew = summarise(loop_killed_once(restored=0), 0)
    assert (anew.steps, anew.steps_repeated, anew.exactness) == (30, 11, "unguarded")
    gone_on = summarise(loop_killed_once(restored=10), 0)
    assert (gone_on.steps, gone_on.steps_repeated, gone_on.exactness) == (30, 1, "unguarded")


def test_failed_checkpoints_are_reported_in_the_single_line() -> None:
    events = [*undisturbed(), happened(1, "checkpoint-failed", reason="No space left on device")]
    (line,) = account(summarise(events, 0), "run")
    assert line.startswith("finished, ")
    assert "1 checkpoint could not be written" in line


def test_forged_attempt_number_does_not_cause_a_huge_count():
    """Counting up to it one by one would exhaust the memory."""
    events = [*undisturbed(), happened(10**18, "attempt-started")]
    assert summarise(events, 0).unrecorded == 10**18 - 2


def cut_off_and_resumed(steps: int = 32, saved: int = 30) -> list[Event]:
    """oomph and the script were killed at the same time, and the user typed --resume."""
    return [
        happened(1, "run-started"),
        happened(1, "attempt-started"),
        happened(1, "fit-started", fit=0, guard="exact"),
        happened(1, "checkpoint", seconds=0.1, bytes=10),
        happened(1, "attempt-ended", returncode=None, seconds=9.0, steps=steps, saved=saved, oom_kills=None),
        happened(2, "run-started"),
        happened(2, "attempt-started"),
        happened(2, "fit-started", fit=0, guard="exact"),
        happened(2, "resumed", fit=0, steps=saved, kind="exact"),
    ]


def finished(attempt: int, steps: int = 40) -> list[Event]:
    return [
        happened(attempt, "attempt-ended", returncode=0, seconds=9.0, steps=steps, saved=steps),
        happened(attempt, "decided", action="finish", exit_code=0, reason=""),
    ]


def test_resume_after_an_external_kill_is_not_counted_as_a_restart() -> None:
    summary = summarise([*cut_off_and_resumed(), *finished(2)], 0)
    assert (summary.attempts, summary.restarts, summary.resumes, summary.cut_off) == (2, 0, 1, 1)
    lines = account(summary, "run")
    assert lines[:3] == [
        "what happened  terminated from outside once (oomph was terminated too)",
        "what was done  started again with --resume once",
        "what it cost   2 of 40 steps repeated",
    ]


def test_restarts_and_resumes_are_counted_separately() -> None:
    killed = [happened(2, "attempt-ended", returncode=-9, seconds=1.0, steps=30, saved=30)]
    again = [happened(3, "attempt-started"), happened(3, "fit-started", fit=0), happened(3, "resumed", steps=30)]
    summary = summarise([*cut_off_and_resumed(), *killed, *again, *finished(3)], 0)
    assert (summary.attempts, summary.restarts, summary.resumes) == (3, 1, 1)
    (done,) = [line for line in account(summary, "run") if line.startswith("what was done")]
    assert done == "what was done  1 restart, started again with --resume once"


@pytest.mark.parametrize(("reached", "repeated"), [(0, 0), (30, 0), (31, 1), (32, 2)])
def test_stopped_attempt_repeats_only_the_steps_it_reached(reached: int, repeated: int) -> None:
    stopped = happened(2, "attempt-ended", returncode=-15, seconds=9.0, steps=reached, saved=30)
    assert repeated_in([*cut_off_and_resumed(), stopped]) == repeated
    later = [happened(3, "fit-started", fit=0), happened(3, "resumed", fit=0, steps=30), *finished(3)]
    assert repeated_in([*cut_off_and_resumed(), stopped, *later]) == repeated + 2


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (
            happened(1, "no-witnesses", reason="No space left on device"),
            "the records of the steps could not be written: No space left on device",
        ),
        (
            happened(1, "no-witnesses", reason="ValueError: odd"),
            "the records of the steps could not be written: ValueError: odd",
        ),
        (happened(1, "oom"), "the repeated steps had left no record of their results"),
    ],
)
def test_uncompared_repeated_steps_are_explained(event: Event, reason: str) -> None:
    summary = summarise([event, *killed_once()], 0)
    assert (summary.exactness, summary.exactness_reasons) == ("unverified", (reason,))


def test_missing_records_are_not_mentioned_if_no_step_was_repeated() -> None:
    events = [
        event if event.name != "attempt-ended" else happened(event.attempt, event.name, steps=400, saved=400)
        for event in killed_once()
    ]
    summary = summarise(events, 0)
    assert (summary.steps_repeated, summary.exactness, summary.exactness_reasons) == (0, "unverified", ())
    restored = "unverified: everything known was restored"
    assert result_in_words(summary) == f"{restored}; no step had to be repeated, so none could be compared"
    assert result_in_words(replace(summary, steps_repeated=1)).startswith(f"{restored}, but too few")
    unknown = result_in_words(replace(summary, reasons=(because("unrecorded"),)))
    assert unknown.startswith(f"{restored}, but too few"), "nobody knows how many were repeated"


def test_replayed_label_names_the_operation_and_the_change_that_would_help() -> None:
    why = because("position-not-saved", why="RandomUniform is stateful").as_data()
    stateful = happened(1, "checkpoint", bytes=9, seconds=0.1, iterator="RandomUniform is stateful", why=why)
    compared = happened(2, "compared", fit=0, steps=12, covered=12, repeated=12, equal=True)
    events = [stateful, *killed_once("replayed"), compared]
    summary = summarise(events, 0)
    why = "the position in the data cannot be saved: RandomUniform is stateful"
    assert (summary.exactness, summary.exactness_reasons) == ("replayed", (why,))
    lines = account(summary, "run")
    (result,) = [line for line in lines if line.startswith("the result")]
    (better,) = [line for line in lines if line.startswith("to improve it")]
    assert result.endswith(f"; {why}")
    assert "tf.random.stateless_uniform(shape, seed) instead of tf.random.uniform" in better
    story = story_of(events, summary, (), ("train.py",))
    assert "to improve it: write tf.random.stateless_uniform" in as_text(story, "run", "", str, 200)


def restarted(kinds: tuple[str, ...] = ("exact",), by_user: bool = False) -> list[Event]:
    """Killed 10 s after its start; oomph notices immediately and records it 2 s later."""
    ended = {"returncode": -9, "seconds": 10.0, "steps": 412, "saved": 400}
    resumed = [Event.named("resumed", {"steps": 400, "kind": kind}, 2, time=125.0 + n) for n, kind in enumerate(kinds)]
    return [
        Event.named("attempt-started", {}, 1, time=100.0),
        Event.named("fit-started", {"fit": 0}, 1, time=104.0),
        Event.named("attempt-ended", ended, 1, time=112.0),
        *[Event.named("run-started", {}, 2, time=113.0)] * by_user,
        Event.named("attempt-started", {}, 2, time=113.0),
        Event.named("fit-started", {"fit": 0}, 2, time=121.0),
        *resumed,
        Event.named("attempt-ended", {"returncode": 0, "seconds": 30.0, "steps": 500, "saved": 500}, 2, time=143.0),
    ]


@pytest.mark.parametrize(("kinds", "seconds"), [(("exact",), 15.0), (("finished", "exact"), 16.0), ((), 11.0)])
def test_restart_cost_is_the_time_from_the_crash_to_the_first_new_step(kinds: tuple[str, ...], seconds: float) -> None:
    summary = summarise(restarted(kinds), 0)
    assert summary.seconds_restarting == seconds
    (row,) = [row for row in account(summary, None) if row.startswith("what it cost")]
    assert row.endswith(f"of 500 steps repeated, {seconds:.0f} s restarting")


def test_time_until_the_user_resumes_the_run_is_not_a_restart_cost() -> None:
    summary = summarise(restarted(by_user=True), 0)
    assert summary.seconds_restarting == 0
    assert not any("restarting" in row for row in account(summary, None))


@pytest.mark.parametrize("time", [0.0, float("nan"), float("inf")])
def test_restart_with_an_implausible_time_costs_nothing(time: float) -> None:
    events = [event._replace(time=time) if event.attempt == 2 else event for event in restarted()]
    assert summarise(events, 0).seconds_restarting == 0
