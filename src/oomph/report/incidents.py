"""The incidents of a run as a report tells them: cause, evidence, decision and why, cost, remedies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oomph.explain.catalogue.catalogue import find
from oomph.explain.catalogue.fault import Fault
from oomph.explain.matching.named_fault import Diagnosis
from oomph.journal.events import RestartRequested
from oomph.journal.journal import pairs
from oomph.page.axis import in_local_time
from oomph.report.recording import Recording
from oomph.run.policy.decisions import why

_MOST_REMEDIES = 3
_EVIDENCE_LINES = 2


@dataclass(frozen=True)
class ReportedIncident:
    """One fault of a run, with everything that is known about it."""

    number: int
    """Its number in the run, counted from 1."""
    fault: str
    code: str
    """The code of the fault's page, or an empty string."""
    page: Fault | None
    attempt: int
    time: float
    place: str
    evidence: tuple[str, ...]
    """The evidence, as printed or measured."""
    decision: str
    why: tuple[str, ...]
    """The rules that led to the decision."""
    cost: str
    remedies: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield what is known as pairs of a heading and a text."""
        clock = in_local_time(self.time, "%Y-%m-%d %H:%M:%S")
        yield "when", ", ".join(filter(None, (clock, f"attempt {self.attempt}", self.place)))
        if self.page is not None:
            yield "cause", self.page.summary
        yield from (("evidence", line) for line in self.evidence)
        yield "decision", self.decision
        yield from (("why", reason) for reason in self.why)
        if self.cost:
            yield "cost", self.cost


def reported(recording: Recording) -> tuple[ReportedIncident, ...]:
    """Return the incidents of a run, in order."""
    diagnoses = {diagnosis.name: diagnosis for diagnosis in recording.diagnoses}
    remedies = {name: _remedies(diagnosis) for name, diagnosis in diagnoses.items()}  # once, for up to 10⁵ incidents
    ends = {attempt.number: attempt.end for attempt in recording.attempts}
    return tuple(
        ReportedIncident(
            number=number,
            fault=incident.fault,
            code=page.code if page is not None else "",
            page=page,
            attempt=incident.attempt,
            time=incident.time,
            place=incident.place,
            evidence=_evidence(incident.shown_by, diagnoses.get(incident.fault), incident.attempt),
            decision=incident.done,
            why=_why(recording, incident.attempt) if ends.get(incident.attempt) == incident.time else (),
            cost=incident.cost,
            remedies=remedies.get(incident.fault, ()),
        )
        for number, incident in enumerate(recording.story.incidents, 1)
        for page in (find(incident.fault),)
    )


def _why(recording: Recording, attempt: int) -> tuple[str, ...]:
    """Return why the process asked for another one, if it did, and the rules that led to the decision."""
    asked = [
        each.reason
        for event, each in pairs(recording.events, RestartRequested)
        if event.attempt == attempt and each.reason
    ]
    rules = [rule for decision in recording.decisions if decision.attempt == attempt for rule in why(decision)]
    return (*asked[-1:], *rules)


def _evidence(shown_by: str, diagnosis: Diagnosis | None, attempt: int) -> tuple[str, ...]:
    """Return what showed the fault in this attempt. The diagnosis has the evidence of all attempts."""
    told = [shown_by] if shown_by else []
    for fact in () if diagnosis is None else diagnosis.evidence:
        if fact.attempt not in (None, attempt):
            continue
        if len(told) < _EVIDENCE_LINES and fact.text and not any(text in fact.text for text in told):
            told.append(fact.text)
    return tuple(told)


def _remedies(diagnosis: Diagnosis) -> tuple[str, ...]:
    documents: Sequence[Mapping[str, str]] = [remedy.as_document() for remedy in diagnosis.remedies[:_MOST_REMEDIES]]
    return tuple(document["text"] for document in documents)
