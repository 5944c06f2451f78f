"""What a rehearsal makes of a run that is over."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from oomph.journal.events import Resumed
from oomph.journal.journal import Event
from oomph.protocol.reason_table import GENERATOR
from oomph.protocol.reasons import because
from oomph.rehearse.faults import FAULTS, NAMES
from oomph.rehearse.judge import LOST, NOT_TRIED, SURVIVED, Rehearsed, judge
from oomph.rehearse.rehearse import Report
from oomph.rehearse.report import as_document, as_text
from oomph.run.report.labels import NOT_EQUAL

BY_NAME = {fault.name: fault for fault in FAULTS}
END = {"state": "abc", "loss": 0.5}


def events(**data):
    return [Event.named(name.replace("_", "-"), facts) for name, facts in data.items()]


def saved(*steps):
    return [Event.named("checkpoint", {"name": f"step-{n}", "steps": n}) for n in steps]


UNDISTURBED = Rehearsed(0, 10.0, {"steps": 40}, [*saved(10, 20, 30), *events(rehearsal_ended=END)])


def run(name, **changes):
    """A run that has met this fault as it should."""
    fault = BY_NAME[name]
    summary = {"steps": 40, "restarts": 1, "steps_repeated": 5, "faults": {fault.fault: 1} if fault.fault else {}}
    met = [Event(fault.event())] if fault.event else []
    happened = [*saved(10, 20), *met, *saved(30), *events(rehearsal_ended=END)]
    return replace(Rehearsed(0, 14.0, summary, happened, fired=True), **changes)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_with_equal_bits_survives_each_fault(name):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name))
    assert (verdict.survived, verdict.reason, verdict.result) == (SURVIVED, "", "the same bits")
    assert (verdict.restarts, verdict.steps_repeated, verdict.seconds_lost) == (1, 5, 4.0)


def test_equal_bits_with_racing_draws_are_called_chance():
    reason = because("raced", call="tf.image.random_flip_left_right").as_data()
    summary = run("kill").summary | {"exactness": NOT_EQUAL, "reasons": [reason]}
    assert judge(BY_NAME["kill"], UNDISTURBED, run("kill", summary=summary)).result == "the same bits, by chance"


@pytest.mark.parametrize("name", NAMES)
def test_fault_that_never_fired_is_judged_not_tried(name):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name, fired=False))
    assert (verdict.survived, verdict.reason) == (
        NOT_TRIED,
        "the script never reached a point where it could be injected",
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exit_code": None}, "had not ended after 14 s"),
        ({"exit_code": 93, "summary": {"steps": 21, "gave_up": "killed 4 times"}}, "exit code 93: killed 4 times"),
        ({"summary": {"steps": 39}}, "ended after 39 of 40 steps"),
        ({"events": events(rehearsal_ended={"loss": "nan"})}, "continued with NaN"),
    ],
)
def test_a_run_without_a_useful_end_is_lost(name, changes, words):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name, **changes))
    assert verdict.survived == LOST
    assert words in verdict.reason


def test_run_continuing_with_nan_is_judged_lost_whatever_its_loss():
    skipped = [*saved(10, 20), Event.named("checkpoint-skipped", {}), *events(rehearsal_ended=END)]
    verdict = judge(BY_NAME["nan"], UNDISTURBED, run("nan", events=skipped))
    assert verdict.survived == LOST
    assert "continued with NaN" in verdict.reason


def test_a_run_that_never_counted_its_hang_is_judged_lost():
    assert judge(BY_NAME["hang"], UNDISTURBED, run("hang")).survived == SURVIVED
    other = {"steps": 40, "faults": {"killed": 1}}
    verdict = judge(BY_NAME["hang"], UNDISTURBED, run("hang", summary=other))
    assert (verdict.survived, verdict.reason) == (LOST, "it finished, but never counted the fault hang")


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS if fault.event])
def test_finishing_without_the_expected_recovery_event_is_lost(name):
    verdict = judge(BY_NAME[name], UNDISTURBED, run(name, events=events(rehearsal_ended=END)))
    assert verdict.survived == LOST
    shown = "from the beginning" if BY_NAME[name].event is Resumed else BY_NAME[name].event.event
    assert shown in verdict.reason


def test_different_final_weights_are_shown_with_both_losses():
    ended = [*saved(30), *events(rehearsal_ended={"state": "xyz", "loss": 0.25}, resumed={})]
    verdict = judge(BY_NAME["kill"], UNDISTURBED, run("kill", events=ended))
    assert (verdict.survived, verdict.result) == (SURVIVED, "loss 0.25, undisturbed 0.5")


def test_steps_put_at_risk_by_a_full_disk_are_counted():
    ended = [*saved(10), *events(rehearsal_ended=END, checkpoint_failed={})]
    assert judge(BY_NAME["disk-full"], UNDISTURBED, run("disk-full", events=ended)).at_risk == 20


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


def test_one_survived_fault_is_reported_in_the_singular():
    verdict = judge(BY_NAME["kill"], UNDISTURBED, run("kill"))
    last = list(as_text(Report(UNDISTURBED, 20, (verdict,))))[-1]
    assert last == "survives the one fault after step 20 of 40"


def test_report_without_any_injected_fault_leaves_survival_unknown():
    verdict = judge(BY_NAME["kill"], UNDISTURBED, run("kill", fired=False))
    report = Report(UNDISTURBED, 20, (verdict,))
    assert report.survives is None
    assert list(as_text(report))[-1] == "nothing is known: no fault could be injected"
    assert as_document(report)["survives"] is None


# -- the label after a kill -------------------------------------------------------------------------------------------


def labelled(name, label, *reasons, **changes):
    summary = run(name).summary | {"exactness": label, "reasons": [reason.as_data() for reason in reasons]}
    return judge(BY_NAME[name], UNDISTURBED, run(name, summary=summary, **changes))


def report_of(*verdicts):
    report = Report(UNDISTURBED, 20, verdicts)
    return list(as_text(report)), as_document(report)["label"]


def test_the_best_label_is_reported_without_a_remedy():
    text, label = report_of(labelled("kill", "verified"))
    assert "label after a kill: verified: the repeated steps match the original ones" in "\n".join(text)
    assert label == {"after": "kill", "label": "verified", "reasons": [], "remedies": []}
    assert not any("to improve it" in line for line in text)


def test_a_worse_label_lists_each_reason_with_its_remedy():
    generator = because("object", where="callback Own.step", what="generator", trouble=GENERATOR)
    drawn = because("draws-of-kind", kind="RandomGamma", where="in the train step")
    text, label = report_of(labelled("kill", "not-equal", generator, drawn))
    lost = [str(generator), str(drawn)]
    at = text.index("label after a kill: not equal to an undisturbed training")
    assert [text[at + 1].strip(), text[at + 3].strip()] == lost
    assert "to improve it: write the generator as a class" in text[at + 2]
    assert "keras.random.SeedGenerator" in text[at + 4]
    assert [each["reason"] for each in label["remedies"]] == label["reasons"] == lost


def test_label_is_taken_from_a_kill_first_and_only_from_restarted_runs():
    kill, abort, oom = labelled("kill", "verified"), labelled("abort", "replayed"), labelled("oom", "exact")
    assert report_of(abort, kill)[1]["after"] == "kill"
    assert report_of(oom, abort)[1]["after"] == "abort"
    assert report_of(oom)[1] is None
    assert report_of(labelled("kill", "verified", fired=False))[1] is None


def test_a_label_without_reasons_gets_its_remedy_from_the_events():
    loop = events(loop_seen={"site": "train.py:9"}, rehearsal_ended=END)
    _, label = report_of(labelled("kill", "unguarded", events=loop))
    assert "the loop at train.py:9 resumable: `for batch in oomph.steps(" in label["remedies"][0]["text"]
