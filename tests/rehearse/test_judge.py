"""Verdicts on rehearsed runs, and rehearsals that are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from oomph.journal.events import Resumed
from oomph.journal.journal import Event
from oomph.protocol.handover import REHEARSAL, Injection
from oomph.protocol.reason_table import GENERATOR
from oomph.protocol.reasons import because
from oomph.rehearse import rehearse as module
from oomph.rehearse.judge import FAULTS, LOST, NAMES, NOT_TRIED, SURVIVED, FaultVerdict, Rehearsed, judge
from oomph.rehearse.rehearse import RehearsalPlan, Report, _refused, rehearse
from oomph.rehearse.report import as_document, as_text
from oomph.run.report.labels import NOT_EQUAL

BY_NAME = {fault.name: fault for fault in FAULTS}
END = {"state": "abc", "loss": 0.5}
WHY = "the script cannot be started a second time: train.py:9, `os.mkdir(out)` ends with ..."
ENDED = Rehearsed(0, 9.0, {"steps": 40}, [Event.named("rehearsal-ended", {"state": "a", "loss": 0.5})])
REFUSED = Rehearsed(93, 1.0, {"steps": 0, "faults": {"not-restartable": 1}, "gave_up": WHY}, [])


def events(**data):
    return [Event.named(name.replace("_", "-"), facts) for name, facts in data.items()]


def saved(*steps):
    return [Event.named("checkpoint", {"name": f"step-{n}", "steps": n}) for n in steps]


UNDISTURBED = Rehearsed(0, 10.0, {"steps": 40}, [*saved(10, 20, 30), *events(rehearsal_ended=END)])


def run(name, **changes):
    """Return a run that handled this fault as it should."""
    fault = BY_NAME[name]
    summary = {"steps": 40, "restarts": 1, "steps_repeated": 5, "faults": {fault.fault: 1} if fault.fault else {}}
    met = [Event(fault.event())] if fault.event else []
    happened = [*saved(10, 20), *met, *saved(30), *events(rehearsal_ended=END)]
    return replace(Rehearsed(0, 14.0, summary, happened, fired=True), **changes)


@pytest.mark.parametrize("name", NAMES)
def test_bit_identical_resumed_run_survives_each_fault(name):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name))
    assert (verdict.survived, verdict.reason, verdict.result) == (SURVIVED, "", "the same bits")
    assert (verdict.restarts, verdict.steps_repeated, verdict.seconds_lost) == (1, 5, 4.0)


def test_identical_results_with_racing_draws_are_attributed_to_chance():
    reason = because("raced", call="tf.image.random_flip_left_right").as_data()
    summary = run("kill").summary | {"exactness": NOT_EQUAL, "reasons": [reason]}
    assert judge(BY_NAME["kill"], UNDISTURBED, run("kill", summary=summary)).result == "the same bits, by chance"


@pytest.mark.parametrize("name", NAMES)
def test_fault_that_never_fired_counts_as_not_tried(name):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name, fired=False))
    assert (verdict.survived, verdict.reason) == (
        NOT_TRIED,
        "the script never reached a point where it could be injected",
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exit_code": None}, "had not finished after 14 s"),
        ({"exit_code": 93, "summary": {"steps": 21, "gave_up": "killed 4 times"}}, "exit code 93: killed 4 times"),
        ({"summary": {"steps": 39}}, "stopped after 39 of 40 steps"),
        ({"events": events(rehearsal_ended={"loss": "nan"})}, "continued with NaN"),
    ],
)
def test_run_without_a_useful_outcome_does_not_count_as_survived(name, changes, words):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name, **changes))
    assert verdict.survived == LOST
    assert words in verdict.reason


def test_run_that_continues_with_nan_does_not_count_as_survived_whatever_its_loss():
    skipped = [*saved(10, 20), Event.named("checkpoint-skipped", {}), *events(rehearsal_ended=END)]
    verdict = judge(BY_NAME["nan"], UNDISTURBED, run("nan", events=skipped))
    assert verdict.survived == LOST
    assert "continued with NaN" in verdict.reason


def test_run_that_never_recorded_its_hang_does_not_count_as_survived():
    assert judge(BY_NAME["hang"], UNDISTURBED, run("hang")).survived == SURVIVED
    other = {"steps": 40, "faults": {"killed": 1}}
    verdict = judge(BY_NAME["hang"], UNDISTURBED, run("hang", summary=other))
    assert (verdict.survived, verdict.reason) == (LOST, "it finished, but did not count the fault hang")


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS if fault.event])
def test_finishing_without_the_expected_recovery_event_does_not_count_as_survived(name):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name, events=events(rehearsal_ended=END)))
    assert verdict.survived == LOST
    shown = "from the beginning" if BY_NAME[name].event is Resumed else BY_NAME[name].event.event
    assert shown in verdict.reason


def test_different_final_weights_are_shown_with_both_losses():
    ended = [*saved(30), *events(rehearsal_ended={"state": "xyz", "loss": 0.25}, resumed={})]
    verdict = judge(BY_NAME["kill"], UNDISTURBED, run("kill", events=ended))
    assert (verdict.survived, verdict.result) == (SURVIVED, "loss 0.25, undisturbed 0.5")


def test_steps_at_risk_from_a_full_disk_are_counted():
    ended = [*saved(10), *events(rehearsal_ended=END, checkpoint_failed={})]
    verdict = judge(BY_NAME["disk-full"], UNDISTURBED, run("disk-full", events=ended))
    assert verdict.at_risk == 20
    assert "disk-full: after this fault, less is saved, so a later kill would repeat up to 20 more steps" in list(
        as_text(Report(UNDISTURBED, 20, (verdict,)), width=200)
    )


def test_report_text_and_json_agree():
    verdicts = [judge(BY_NAME["kill"], UNDISTURBED, run("kill"))]
    verdicts.append(judge(BY_NAME["hang"], UNDISTURBED, run("hang", exit_code=None)))
    report = Report(UNDISTURBED, 20, tuple(verdicts))
    text = list(as_text(report))
    assert text[1].split() == ["kill", "yes", "1", "5", "of", "40", "4", "s", "the", "same", "bits"]
    assert text[-1] == "would not survive: hang"
    document = json.loads(json.dumps(as_document(report)))
    assert (document["schema"], document["survives"], document["steps"], document["at"]) == (1, False, 40, 20)
    assert [fault["survived"] for fault in document["faults"]] == ["yes", "no"]
    assert Report(UNDISTURBED, 20, tuple(verdicts[:1])).survives


def test_single_survived_fault_is_reported_in_the_singular():
    verdict = judge(BY_NAME["kill"], UNDISTURBED, run("kill"))
    last = list(as_text(Report(UNDISTURBED, 20, (verdict,))))[-1]
    assert last == "survives the one fault after step 20 of 40"


def test_report_without_any_injected_fault_leaves_survival_unknown():
    verdict = judge(BY_NAME["kill"], UNDISTURBED, run("kill", fired=False))
    report = Report(UNDISTURBED, 20, (verdict,))
    assert report.survives is None
    assert list(as_text(report))[-1] == "nothing is known: no fault could be injected"
    assert as_document(report)["survives"] is None


def labelled(name, label, *reasons, **changes):
    summary = run(name).summary | {"exactness": label, "reasons": [reason.as_data() for reason in reasons]}
    return judge(BY_NAME[name], UNDISTURBED, run(name, summary=summary, **changes))


def report_of(*verdicts):
    report = Report(UNDISTURBED, 20, verdicts)
    return list(as_text(report)), as_document(report)["label"]


def test_best_label_is_reported_without_a_remedy():
    text, label = report_of(labelled("kill", "verified"))
    assert "label after a kill: verified: the repeated steps match the original ones" in "\n".join(text)
    assert label == {"after": "kill", "label": "verified", "reasons": [], "remedies": []}
    assert not any("to improve it" in line for line in text)


def test_worse_label_lists_each_reason_with_its_remedy():
    generator = because("object", where="callback Own.step", what="generator", trouble=GENERATOR)
    drawn = because("draws-of-kind", kind="RandomGamma", where="in the train step")
    text, label = report_of(labelled("kill", "not-equal", generator, drawn))
    lost = [str(generator), str(drawn)]
    at = text.index("label after a kill: not equal to undisturbed training")
    assert [text[at + 1].strip(), text[at + 3].strip()] == lost
    assert "to improve it: write the generator as a class" in text[at + 2]
    assert "keras.random.SeedGenerator" in text[at + 4]
    assert [each["reason"] for each in label["remedies"]] == label["reasons"] == lost


def test_label_comes_from_a_restarted_run_preferably_a_killed_one():
    kill, abort, oom = labelled("kill", "verified"), labelled("abort", "replayed"), labelled("oom", "exact")
    assert report_of(abort, kill)[1]["after"] == "kill"
    assert report_of(oom, abort)[1]["after"] == "abort"
    assert report_of(oom)[1] is None
    assert report_of(labelled("kill", "verified", fired=False))[1] is None


def test_label_without_reasons_gets_its_remedy_from_events():
    loop = events(loop_seen={"site": "train.py:9"}, rehearsal_ended=END)
    _, label = report_of(labelled("kill", "unguarded", events=loop))
    assert "the loop at train.py:9 resumable: `for batch in oomph.steps(" in label["remedies"][0]["text"]


def test_every_rehearsal_run_uses_the_same_entropy_as_the_undisturbed_run(tmp_path, monkeypatch):
    given = []

    def run(plan, folder, injection, limit):
        given.append(injection.entropy)
        path = folder / (injection.fault or "undisturbed")
        path.mkdir(parents=True)
        record = {
            "schema": 1,
            "command": ["a.py"],
            "python": "p",
            "cwd": "/",
            "created": "",
            "status": "finished",
            "attempts": 1,
            "host": "h",
            "options": [],
            "entropy": "ab12ab12ab12ab12ab12ab12ab12ab12",
            "digest": "",
            "workers": 1,
        }
        (path / "run.json").write_text(json.dumps(record))
        return Rehearsed(0, 1.0, {"steps": 40}, [Event.named("rehearsal-ended", {"state": "a", "loss": 0.5})])

    monkeypatch.setattr(module, "_run", run)
    rehearse(RehearsalPlan(("a.py",), ("kill", "abort")), str(tmp_path / "kept"), lambda line: None)
    assert given == ["", "ab12ab12ab12ab12ab12ab12ab12ab12", "ab12ab12ab12ab12ab12ab12ab12ab12"]


def test_runs_with_the_same_entropy_draw_the_same_numbers(tmp_path):
    (tmp_path / "train.py").write_text("import random; print(random.random())")
    drawn = []
    for name in ("one", "two"):
        environ = {**os.environ, **Injection("", 0, entropy="ab12ab12ab12ab12ab12ab12ab12ab12").to_environment()}
        words = [sys.executable, "-m", "oomph", "run", f"--run-dir={name}", "train.py"]
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
        drawn.append(done.stdout)
        assert json.loads((tmp_path / name / "run.json").read_text())["entropy"] == "ab12ab12ab12ab12ab12ab12ab12ab12"
    assert drawn[0] == drawn[1] != ""


@pytest.mark.parametrize(("result", "told"), [("loss 1.5, undisturbed 1.6", 1), ("the same bits", 0)])
def test_losses_that_differ_because_no_seed_was_set_are_explained(result, told):
    reason = because("order-unseeded")
    oom = FaultVerdict("oom", SURVIVED, "", result=result)
    kill = FaultVerdict("kill", SURVIVED, "", restarts=1, result=result, label="not-equal", label_reasons=(reason,))
    text = " ".join("\n".join(as_text(Report(Rehearsed(0, 1.0, {"steps": 40}, []), 20, (oom, kill)))).split())
    assert text.count(f"losses differ from run to run even without a fault: {reason}") == told


def test_refused_restart_does_not_count_as_survived_even_though_its_fault_never_fired():
    verdict = judge(FAULTS[1], ENDED, REFUSED)
    assert (verdict.survived, verdict.reason, verdict.named) == (LOST, WHY, ("not-restartable",))


def test_conclusion_names_the_failing_line_and_leftover_files():
    verdicts = (judge(FAULTS[1], ENDED, REFUSED), FaultVerdict("abort", NOT_TRIED, "no second start"))
    report = Report(ENDED, 20, verdicts, WHY, ("out", "log"))
    lines = list(as_text(report, width=200))
    assert lines[-1] == f"would not survive any restart: not-restartable: {WHY}"
    assert (
        lines[-2] == "left behind by the script, which would create it again: out, log; remove it before the real run"
    )
    assert (as_document(report)["not_restartable"], as_document(report)["left"]) == (WHY, ["out", "log"])
    assert not report.survives


def test_refusal_after_a_finished_script_is_worded_differently():
    assert _refused(ENDED, REFUSED) == WHY
    assert "the script had finished" in _refused(Rehearsed(0, 9.0, {}, []), REFUSED)
    assert _refused(ENDED, ENDED) == ""


def test_injection_passes_earlier_run_folders_through_the_environment():
    injection = Injection("kill", 20, 40, ("/a", "/b"))
    assert Injection.read(injection.to_environment()) == injection
    assert Injection.read({REHEARSAL: '{"fault": "kill", "step": 1}'}) == Injection("kill", 1)
    assert Injection.read({REHEARSAL: "[]"}) is None
