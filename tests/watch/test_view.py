"""The view that is built from samples and journals."""

from __future__ import annotations

import json
import math

import views
from views import NOW, gpu

from oomph.journal.journal import Event
from oomph.monitor.sample import GpuProcess, Sample
from oomph.protocol.progress import Progress
from oomph.run.directory.run_directory import FAILED, FINISHED, RUNNING, RunRecord
from oomph.run.directory.unfinished import STOPPED, UNFINISHED
from oomph.watch.exposition import exposition
from oomph.watch.incidents import ShownIncident, incidents_of
from oomph.watch.job import Run, highlights_of, job_of, silence
from oomph.watch.once import as_document
from oomph.watch.view import view_of
from oomph.watch.wording import progress

RECORD = RunRecord(("train.py", "--epochs", "10"), "python", "/here", "", RUNNING, attempts=2)


def training(at: float, **values: float) -> Sample:
    return Sample(NOW + at, training=values)


def run(*samples: Sample, **changes: object) -> Run:
    events, going_on = changes.pop("events", ()), changes.get("going_on", True)
    highlights = highlights_of(events, going_on, "there")  # type: ignore[arg-type]
    given = {
        "path": "there",
        "record": RECORD,
        "going_on": True,
        "samples": samples,
        "highlights": highlights,
        **changes,
    }
    return Run(**given)  # type: ignore[arg-type]


# -- GPUs -------------------------------------------------------------------------------------------------------------


def test_gpu_is_shown_with_its_latest_values_and_a_history_chart():
    view = view_of(NOW, [Sample(NOW - 1, (gpu(0, 0.0),)), Sample(NOW, (gpu(0, 1.0),))], [])
    assert view.gpus[0].values["temperature_celsius"] == 70.0
    assert view.gpus[0].history["temperature_celsius"] == ((NOW - 1, 40.0), (NOW, 70.0))


def test_a_lost_gpu_is_shown_without_values():
    view = view_of(NOW, [Sample(NOW - 1, (gpu(0),)), Sample(NOW, (gpu(0, problem="GPU is lost"),))], [])
    assert (view.gpus[0].problem, view.gpus[0].values) == ("GPU is lost", {})
    assert view.processes == ()


def test_rarely_read_values_are_kept_until_the_next_reading():
    slow = gpu(0, values={"power_limit_watts": 700.0, "power_watts": 300.0})
    fast = gpu(0, values={"temperature_celsius": 50.0})
    view = view_of(
        NOW, [Sample(NOW - 9, (slow,), {"swap_used_bytes": 5.0}), Sample(NOW, (fast,), {"cpu_ratio": 0.1})], []
    )
    assert view.gpus[0].values == {"temperature_celsius": 50.0, "power_limit_watts": 700.0}
    assert view.host == {"cpu_ratio": 0.1, "swap_used_bytes": 5.0}
    assert "power_limit_watts" not in view_of(NOW, [Sample(NOW - 26, (slow,)), Sample(NOW, (fast,))], []).gpus[0].values


def test_gpu_processes_are_kept_until_reread_or_outdated():
    old = (GpuProcess(7, 100, "old"),)
    silent = gpu(0, processes=None)
    first, second = gpu(0, processes=old), gpu(0, processes=())
    assert [each.pid for each in view_of(NOW, [Sample(NOW - 9, (first,)), Sample(NOW, (silent,))], []).processes] == [7]
    assert view_of(NOW, [Sample(NOW - 9, (first,)), Sample(NOW, (second,))], []).processes == ()
    assert view_of(NOW, [Sample(NOW - 99, (first,)), Sample(NOW, (silent,))], []).processes == ()


def test_mig_instances_are_numbered():
    view = views.VIEWS["mig"]
    assert [each.label for each in view.gpus] == ["0", "0:0", "0:1", "0:2"]


def test_silence_is_measured_from_the_last_sample():
    assert silence(NOW + 4, [Sample(NOW)]) == 0
    assert silence(NOW + 40, [Sample(NOW)]) == 40
    assert silence(NOW, []) == 0


# -- jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_shows_its_progress_and_estimated_end():
    values = {"epochs": 10, "steps_per_epoch": 100}
    first = training(0, steps_total=500, step_seconds_total=5.0, input_wait_seconds_total=1.0, **values)
    last = training(10, steps_total=600, step_seconds_total=15.0, input_wait_seconds_total=3.0, loss=0.5, **values)
    job = job_of(run(first, last, progress=Progress(attempt=2, fit=0, epoch=6, step=0, steps=600)))
    assert (job.epoch, job.epochs, job.step, job.steps_per_epoch, job.steps) == (7, 10, 0, 100, 600)
    assert math.isclose(job.eta_seconds or 0, 40.0)
    assert math.isclose(job.step_seconds or 0, 0.1)
    assert math.isclose(job.input_wait_ratio or 0, 0.2)
    assert (job.loss, job.attempt, job.state) == (0.5, 2, RUNNING)


def test_samples_per_second_are_those_of_the_last_seconds():
    counted = [training(at, examples_total=64 * (10 * at if at < 20 else 200 + 30 * (at - 20))) for at in range(40)]
    job = job_of(run(*counted))
    assert job.samples_per_second == 64 * 30
    assert dict(job.history["samples_per_second"])[NOW + 19] == 64 * 10
    assert job_of(run(*counted, going_on=False)).samples_per_second is None


def test_a_speed_that_is_no_longer_measured_is_not_shown_as_current():
    counted = [training(at, examples_total=64 * at) for at in range(10)]
    restarted = [Sample(NOW + 10 + at) for at in range(10)]
    job = job_of(run(*counted, *restarted))
    assert (job.samples_per_second, job.newest("samples_per_second")) == (None, None)
    assert job.history["samples_per_second"][-1] == (NOW + 9, 64.0)


def test_rates_of_long_steps_are_means_over_several_of_them():
    steps = [training(at, steps_total=at // 30, step_seconds_total=30.0 * (at // 30)) for at in range(121)]
    assert 1 / 40 < job_of(run(*steps)).history["steps_per_second"][-1][1] < 1 / 25


def test_a_process_is_assigned_to_the_run_whose_sampler_found_it():
    own = gpu(0, processes=(GpuProcess(7, 100, "python", own=True), GpuProcess(8, 50, "python")))
    other = gpu(0, processes=(GpuProcess(7, 100, "python"), GpuProcess(8, 50, "python", own=True)))
    jobs = [job_of(run(Sample(NOW, (each,)), path=path)) for path, each in (("first", own), ("second", other))]
    view = view_of(NOW, [Sample(NOW, (own,))], jobs)
    assert [(each.pid, each.run, each.own) for each in view.processes] == [(7, "first", True), (8, "second", True)]
    ended = job_of(run(Sample(NOW, (other,)), path="second", going_on=False))
    assert view_of(NOW, [Sample(NOW, (own,))], [jobs[0], ended]).processes[1].run == ""


def test_a_manual_resume_does_not_count_as_a_restart():
    by_hand = [Event.named("run-started", {}, attempt=attempt) for attempt in (1, 3)]  # the second attempt was cut off
    started = [Event.named("attempt-started", {}, attempt=attempt) for attempt in (1, 2, 3, 4)]
    assert job_of(run(events=(*by_hand, *started))).restarts == 2
    assert (
        job_of(run(events=(by_hand[0], started[0], Event.named("run-started", {}, attempt=2), started[1]))).restarts
        == 0
    )
    assert job_of(run()).restarts == 0, "nothing is recorded"


def test_step_rate_measurement_starts_over_after_a_restart():
    before = training(0, steps_total=900, step_seconds_total=90.0)
    after = (
        training(50, steps_total=10, step_seconds_total=1.0),
        training(60, steps_total=110, step_seconds_total=2.0),
    )
    assert job_of(run(before, *after)).step_seconds == 0.01


def test_unknown_job_values_are_left_empty():
    job = job_of(run())
    assert (job.epoch, job.eta_seconds, job.step_seconds, job.input_wait_ratio, job.micro_batch) == (None,) * 5
    assert job_of(run(training(0, steps_total=5), training(1, steps_total=5))).eta_seconds is None


def test_epochs_and_micro_batch_are_read_from_the_journal_without_samples():
    events = (Event.named("fit-started", {"epochs": 4}), Event.named("recovered", {"batch": 256, "micro_batch": 64}))
    job = job_of(run(events=events, progress=Progress(fit=0, epoch=1, step=3)))
    assert (job.epochs, job.micro_batch, job.epoch, job.step) == (4, 64, 2, 3)
    assert job_of(run(events=(*events, Event.named("fit-started", {})))).micro_batch is None


def test_epoch_beyond_the_requested_ones_is_shown_without_a_total():
    events = (Event.named("fit-started", {"epochs": 1}),)
    job = job_of(run(going_on=False, events=events, progress=Progress(fit=0, epoch=2, step=0, steps=362)))
    assert progress(job) == "epoch 3  step 0"


def test_finished_run_without_training_is_not_expected_to_train():
    assert progress(job_of(run())) == "training has not started"
    assert progress(job_of(run(record=RunRecord(("x",), "", "", "", FINISHED)))) == "no training was seen"


def test_an_inactive_run_without_a_recorded_end_is_shown_as_unfinished():
    assert job_of(run(going_on=False)).state == UNFINISHED
    ended = RunRecord(("x",), "", "", "", FINISHED)
    assert job_of(run(going_on=False, record=ended)).state == FINISHED


def test_stopped_run_is_shown_in_the_state_that_explain_reports():
    failed = RunRecord(("x",), "", "", "", FAILED)
    for ending, state in (({"stopped": True, "interrupted": True}, STOPPED), ({}, FAILED)):
        decided = Event.named("decided", {"action": "finish", "exit_code": 130, "ending": ending}, 1)
        assert job_of(run(going_on=False, record=failed, events=(decided,))).state == state


# -- incidents --------------------------------------------------------------------------------------------------------


def test_journal_events_are_shown_as_incidents():
    finding = {"fault": "memory-leak", "subject": "GPU 0", "message": "it grows", "severity": "warning", "remedy": "x"}
    events = [
        Event.named("finding", finding, 1, time=1.0),
        Event.named("checkpoint", {}, 1, time=2.0),
        Event.named("recovered", {"batch": 256, "micro_batch": 64}, 1, time=3.0),
        Event.named("hang", {"seconds": 61.2, "line": "train.py:7"}, 1, time=4.0),
        Event.named("diagnosed", {"fault": "hang", "code": "CRS301"}, 1, time=5.0),
        Event.named("gave-up", {"fault": "hang", "reason": "again"}, 2, time=6.0),
        Event.named("preempted", {"signal": "SIGTERM", "steps": 1}, 2, time=7.0),
        Event.named("checkpoint-failed", {"reason": "no space"}, 2, time=8.0),
    ]
    told = incidents_of(events)
    assert [(each.severity, each.fault, each.message) for each in told] == [
        ("warning", "memory-leak", "it grows"),
        ("notice", "device-oom", "batch 256 continues as micro-batches of 64"),
        ("critical", "hang", "no progress for 61 s at train.py:7"),
        ("critical", "hang", "ended by this fault"),
        ("critical", "hang", "again"),
        ("notice", "preempted", "preempted by SIGTERM after 1 step"),
        ("warning", "checkpoint-failure", "no space"),
    ]
    assert told[0].finding
    assert not told[1].finding


def test_damaged_events_do_not_stop_the_view():
    names = ("finding", "recovered", "hang", "diagnosed", "gave-up", "preempted", "checkpoint-failed")
    assert len(incidents_of([Event.named(name, {}) for name in names])) == len(names)
    assert incidents_of([Event.named("finding", {"severity": "loud", "fault": 3})])[0].severity == "warning"


def test_current_finding_is_shown_once_as_an_incident_and_alert():
    told = ShownIncident(NOW - 5, "warning", "memory-leak", "GPU 0", "it grows", finding=True)
    job = job_of(run(events=(Event.named("finding", {"fault": "memory-leak", "subject": "GPU 0"}, 1, time=NOW - 7),)))
    view = view_of(NOW, [Sample(NOW)], [job], [told])
    assert (len(view.incidents), len(view.alerts)) == (1, 1)
    alone = view_of(NOW, [Sample(NOW)], [], [told])
    assert alone.incidents == alone.alerts == (told,)


def test_the_most_severe_findings_come_first():
    found = [
        ShownIncident(NOW - age, how, "hang", how, "", finding=True)
        for age, how in enumerate(("notice", "critical", "warning", "critical"))
    ]
    assert [each.time for each in view_of(NOW, [Sample(NOW)], [], found).alerts] == [NOW - 1, NOW - 3, NOW - 2, NOW]


def test_charts_of_old_samples_end_with_the_last_one():
    view = view_of(NOW, [Sample(NOW)], [])
    assert [view.until(sampled) for sampled in (None, NOW - 1, NOW - 100, NOW - 7200)] == [NOW, NOW, NOW, NOW - 7200]


def test_finding_counts_as_an_alert_until_it_ends():
    leak = {"fault": "memory-leak", "subject": "GPU 0", "kind": ""}
    found, ended = (
        Event.named("finding", leak, 1, time=NOW - 7000),
        Event.named("finding-ended", {**leak, "until": NOW - 600}, 1),
    )
    again = Event.named("finding", {**leak, "again": True}, 1, time=NOW - 9)
    next_attempt = Event.named("attempt-started", {}, attempt=2, time=NOW - 5)

    def seen(*events: Event, going_on: bool = True) -> tuple[int, list[float | None]]:
        view = view_of(NOW, [Sample(NOW)], [job_of(run(events=events, going_on=going_on))])
        return len(view.alerts), [each.ended for each in view.past]

    assert seen(found) == (1, [])
    assert seen(found, ended) == (0, [NOW - 600])
    assert seen(found, ended, again) == (1, [])
    assert seen(found, next_attempt) == (0, [NOW - 5])
    assert seen(found, going_on=False) == (0, [NOW - 7000]), "of a run that was cut off"


def test_active_finding_is_shown_despite_many_later_events():
    found = Event.named("finding", {"fault": "memory-leak", "subject": "GPU 0"}, 1, time=1.0)
    recovered = [Event.named("recovered", {"batch": 256, "micro_batch": 64}, 1, time=2.0 + at) for at in range(500)]
    told = incidents_of([found, *recovered])
    assert (told[0].fault, len(told)) == ("memory-leak", 101)


def test_findings_differ_by_kind_and_only_the_most_severe_is_exported():
    lost = {"fault": "hardware-fault", "subject": "GPU 0"}
    events = [
        Event.named("finding", {**lost, "kind": kind, "severity": severity}, 1, time=NOW - age)
        for kind, severity, age in (("xid 48", "critical", 9), ("PCIe width", "warning", 5))
    ]
    view = view_of(NOW, [Sample(NOW)], [job_of(run(events=tuple(events)))])
    assert len(view.alerts) == 2
    (line,) = [line for line in exposition(view).splitlines() if line.startswith("oomph_alert_active")]
    assert 'severity="critical"' in line


# -- the document -----------------------------------------------------------------------------------------------------


def test_watch_json_has_the_documented_keys():
    document = as_document(views.VIEWS["incidents"])
    first = document["gpus"][0]
    assert document["schema"] == 1
    assert {"index", "uuid", "name", "memory_used_bytes", "memory_total_bytes"} <= first.keys()
    assert first["memory_total_bytes"] == 80 * views.GIB
    assert document["jobs"][0]["epoch"] == 3
    assert "problem" not in first
    assert as_document(views.VIEWS["lost-gpu"])["gpus"][1] == {
        "index": 1, "uuid": "GPU-00000001", "name": "NVIDIA H100 80GB HBM3", "problem": "GPU is lost",
    }  # fmt: skip


def test_watch_json_is_valid_even_with_a_nan_loss():
    job = job_of(run(training(0, loss=math.nan), training(1, loss=math.nan)))
    text = json.dumps(as_document(view_of(NOW, [], [job])), allow_nan=False)
    assert json.loads(text)["jobs"][0]["loss"] == "nan"
