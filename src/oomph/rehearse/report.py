"""The report on a rehearsal, for people and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from oomph.protocol.not_restartable import NAME as NOT_RESTARTABLE
from oomph.rehearse.judge import FAULTS, LOST, SURVIVED, FaultVerdict, after_a_kill
from oomph.rehearse.rehearse import Report
from oomph.run.report.causes import remedies
from oomph.run.report.labels import meaning
from oomph.terminal.amounts import counted
from oomph.terminal.screen import GREEN, RED, USUAL_WIDTH, Heads
from oomph.terminal.wrapping import table, wrapped

SCHEMA = 1
_MOST_LEFT = 5
_MOST_REMEDIES = 5
_WITHOUT_SEED = ("data-unseeded", "order-unseeded")
HEADS: Heads = {"survives": GREEN, "would not survive": RED}
_HEAD = ("fault", "survives", "restarts", "repeated", "lost", "result")


def as_document(report: Report) -> dict[str, Any]:
    """Return the document that `--json` prints."""
    undisturbed = report.undisturbed
    return {
        "schema": SCHEMA,
        "survives": report.survives,
        "at": report.at,
        "steps": undisturbed.steps,
        "seconds": round(undisturbed.seconds, 1),
        "faults": [asdict(verdict) for verdict in report.verdicts],
        "label": _label(after_a_kill(report.verdicts)),
        "not_restartable": report.refused or None,
        "left": list(report.left),
    }


def as_document_without(reason: str) -> dict[str, Any]:
    """Return the document that `--json` prints if the script failed undisturbed, so that no faults were tried."""
    return {"schema": SCHEMA, "survives": None, "reason": reason, "faults": []}


def as_text(report: Report, width: int = USUAL_WIDTH) -> Iterator[str]:
    """Yield the lines of the report."""
    steps = report.undisturbed.steps
    yield from table([_HEAD, *(_row(verdict, steps) for verdict in report.verdicts)], width)
    yield ""
    for line in _remarks(report):
        yield wrapped(line, width, " " * (len(line) - len(line.lstrip()) + 2))
    yield wrapped(_conclusion(report), width, "  ")


def _remarks(report: Report) -> Iterator[str]:
    what = {fault.name: fault.what for fault in FAULTS}
    for verdict in report.verdicts:
        if verdict.survived != SURVIVED and not report.refused:
            yield f"{verdict.fault} ({what[verdict.fault]}): {verdict.reason}"
        elif verdict.at_risk:
            repeated = counted(verdict.at_risk, "more step")
            yield f"{verdict.fault}: after this fault, less is saved, so a later kill would repeat up to {repeated}"
    yield from _why_losses_differ(report.verdicts)
    yield from _label_lines(after_a_kill(report.verdicts))
    if report.left:
        what_is_left = ", ".join(report.left[:_MOST_LEFT]) + (", ..." if len(report.left) > _MOST_LEFT else "")
        yield f"left behind by the script, which would create it again: {what_is_left}; remove it before the real run"


def _why_losses_differ(verdicts: Sequence[FaultVerdict]) -> Iterator[str]:
    """Yield the missing seeds that make the loss differ between runs, with or without a fault."""
    differing = any(verdict.result.startswith("loss ") for verdict in verdicts)
    unseeded = dict.fromkeys(each for one in verdicts for each in one.label_reasons if each.code in _WITHOUT_SEED)
    for reason in unseeded if differing else ():
        yield f"losses differ from run to run even without a fault: {reason}"


def _row(verdict: FaultVerdict, steps: int) -> tuple[str, ...]:
    repeated, lost = f"{verdict.steps_repeated} of {steps}", f"{verdict.seconds_lost:.0f} s"
    return (verdict.fault, verdict.survived, str(verdict.restarts), repeated, lost, verdict.result)


def _label(verdict: FaultVerdict | None) -> dict[str, Any] | None:
    """Return the label that a killed run of the script would get, and how to improve it."""
    if verdict is None:
        return None
    mends = [each._asdict() for each in remedies(verdict.label, verdict.label_reasons)]
    return {
        "after": verdict.fault,
        "label": verdict.label,
        "reasons": [*map(str, verdict.label_reasons)],
        "remedies": mends,
    }


def _label_lines(verdict: FaultVerdict | None) -> Iterator[str]:
    if verdict is None:
        return
    fault = "a kill" if verdict.fault == "kill" else verdict.fault
    yield f"label after {fault}: {meaning(verdict.label, verdict.steps_repeated, verdict.label_reasons)}"
    for remedy in remedies(verdict.label, verdict.label_reasons)[:_MOST_REMEDIES]:
        if remedy.reason:
            yield f"  {remedy.reason}"
        yield f"  to improve it: {remedy.text}"


def _conclusion(report: Report) -> str:
    if report.refused:
        return f"would not survive any restart: {NOT_RESTARTABLE}: {report.refused}"
    lost = [verdict.fault for verdict in report.verdicts if verdict.survived == LOST]
    tried = [verdict for verdict in report.verdicts if verdict.survived in (SURVIVED, LOST)]
    if lost:
        return f"would not survive: {', '.join(lost)}"
    if not tried:
        return "nothing is known: no fault could be injected"
    faults = "the one fault" if len(tried) == 1 else f"all {len(tried)} faults, each"
    return f"survives {faults} after step {report.at} of {report.undisturbed.steps}"
