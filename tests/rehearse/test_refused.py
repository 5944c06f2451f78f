"""What a rehearsal makes of a script that refuses its second start."""

from __future__ import annotations

from oomph.journal.journal import Event
from oomph.protocol.injection import VARIABLE, Injection
from oomph.rehearse.faults import FAULTS
from oomph.rehearse.judge import LOST, NOT_TRIED, FaultVerdict, Rehearsed, judge
from oomph.rehearse.rehearse import Report, _refused
from oomph.rehearse.report import as_document, as_text

WHY = "the script cannot be started a second time: train.py:9, `os.mkdir(out)` ends with ..."
ENDED = Rehearsed(0, 9.0, {"steps": 40}, [Event.named("rehearsal-ended", {"state": "a", "loss": 0.5})])
REFUSED = Rehearsed(93, 1.0, {"steps": 0, "faults": {"not-restartable": 1}, "gave_up": WHY}, [])


def test_refused_restart_is_judged_lost_although_its_fault_never_fired():
    verdict = judge(FAULTS[1], ENDED, REFUSED)
    assert (verdict.survived, verdict.reason, verdict.named) == (LOST, WHY, ("not-restartable",))


def test_the_conclusion_names_the_failing_line_and_the_leftover_files():
    verdicts = (judge(FAULTS[1], ENDED, REFUSED), FaultVerdict("abort", NOT_TRIED, "no second start"))
    report = Report(ENDED, 20, verdicts, WHY, ("out", "log"))
    lines = list(as_text(report, width=200))
    assert lines[-1] == f"would not survive any restart: not-restartable: {WHY}"
    assert lines[-2] == "left here, where the script would create it again: out, log; remove it before the real run"
    assert (as_document(report)["not_restartable"], as_document(report)["left"]) == (WHY, ["out", "log"])
    assert not report.survives


def test_a_refusal_after_the_script_had_finished_is_worded_differently():
    assert _refused(ENDED, REFUSED) == WHY
    assert "the script had finished" in _refused(Rehearsed(0, 9.0, {}, []), REFUSED)
    assert _refused(ENDED, ENDED) == ""


def test_injection_passes_earlier_run_folders_through_the_environment():
    injection = Injection("kill", 20, 40, ("/a", "/b"))
    assert Injection.read(injection.to_environment()) == injection
    assert Injection.read({VARIABLE: '{"fault": "kill", "step": 1}'}) == Injection("kill", 1)
    assert Injection.read({VARIABLE: "[]"}) is None
