"""Findings: faults that the monitor sees coming or happening, and their forms as JSON lines and as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from oomph.explain.catalogue.catalogue import find
from oomph.files.conforming import conforms
from oomph.journal.events import FindingMade
from oomph.terminal.amounts import as_duration

Severity = Literal["notice", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The severities, from lowest to highest."""


@dataclass(frozen=True)
class Finding:
    """A finding. It is reported once for each fault, subject and kind.

    It is reported again only if it becomes more severe, or recurs after a while.
    """

    fault: str
    """The name of the fault page, such as "memory-leak"."""
    subject: str
    """The part affected: "GPU 0", "host memory", "input pipeline", "loss"."""
    message: str
    """One sentence with the values: "the script's memory is growing by 12 MiB a minute"."""
    severity: Severity = "warning"
    """The severity. A notice needs no action yet; critical means that the training will fail, or its results are
    wrong."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The JSON values behind the message, for programs."""
    remedy: str = ""
    """The remedy, if it is more specific than the first one on the fault page."""
    kind: str = ""
    """Distinguishes findings with the same page and subject: a GPU may report "xid 48", and then "lost"."""
    without_run: str = ""
    """An additional remedy for training outside `oomph run`."""


@dataclass(frozen=True)
class FindingEnded:
    """The end of a finding, identified by the finding's fault, subject and kind."""

    fault: str
    subject: str
    kind: str = ""
    until: float = 0.0
    """The Unix time when the finding was last detected."""
    seconds: float = 0.0
    """The time, in seconds, that the finding lasted since it was reported or recurred."""


@dataclass(frozen=True)
class FindingChanges:
    """Findings that are new, have recurred, or have ended."""

    told: tuple[Finding, ...] = ()
    returned: tuple[Finding, ...] = ()
    """Findings that recurred soon after they had ended. They are recorded, but not reported again."""
    ended: tuple[FindingEnded, ...] = ()


_KEY = ("fault", "subject", "kind")
_TEXTS = (*_KEY, "message", "remedy")
_WITHOUT_RUN = "without_run"
_AGAIN, _ENDED = "again", "ended"
"""The keys that mark a finding as recurring or ended."""


def to_lines(changes: FindingChanges) -> Iterator[str]:
    """Yield a line, including its newline, for each finding that is new, has recurred or has ended."""
    for finding in changes.told:
        yield _line(_document(finding))
    for finding in changes.returned:
        yield _line({**_document(finding), _AGAIN: True})
    for ended in changes.ended:
        yield _line({_ENDED: asdict(ended)})


def from_documents(documents: Iterable[Any]) -> FindingChanges:
    """Read the changes from parsed lines, ignoring anything else."""
    told: list[Finding] = []
    returned: list[Finding] = []
    ended: list[FindingEnded] = []
    for document in documents:
        finding, over = finding_of(document), _ended_of(document)
        if finding is not None:
            (returned if document.get(_AGAIN) else told).append(finding)
        elif over is not None:
            ended.append(over)
    return FindingChanges(tuple(told), tuple(returned), tuple(ended))


def finding_of(document: Any) -> Finding | None:
    """Parse a finding, or return None if the document is something else."""
    if not isinstance(document, dict) or not isinstance(document.get("evidence"), dict):
        return None
    document = {_WITHOUT_RUN: "", **document}  # a journal does not store this key
    names = (*_TEXTS, _WITHOUT_RUN)
    if not all(isinstance(document.get(name), str) for name in names) or document.get("severity") not in SEVERITIES:
        return None
    return Finding(**{name: document[name] for name in (*names, "severity", "evidence")})


def finding_recorded(made: FindingMade) -> Finding | None:
    """Return the finding that an event of a journal records, or None if the event is damaged."""
    return finding_of({**dict(made.items()), "evidence": dict(made.figures)})


def _ended_of(document: Any) -> FindingEnded | None:
    found = document.get(_ENDED) if isinstance(document, dict) else None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in _KEY):
        return None
    until, seconds = found.get("until"), found.get("seconds")
    if isinstance(until, str) or isinstance(seconds, str) or not conforms([until, seconds], list[float]):
        return None
    return FindingEnded(found["fault"], found["subject"], found["kind"], float(until or 0), float(seconds or 0))


def _document(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "evidence": dict(finding.evidence)}


def _line(document: dict[str, Any]) -> str:
    """Format one line. Values that JSON cannot represent become strings."""
    return json.dumps(document, default=str) + "\n"


def in_words(finding: Finding) -> str:
    """Describe the finding as text, including its severity, name and remedy."""
    remedy = remedy_of(finding)
    message = f"{finding.severity}: {finding.subject}: {finding.message} ({_name_of(finding.fault)})"
    return message + (f". {remedy}" if remedy else "")


def end_in_words(ended: FindingEnded) -> str:
    """Describe the end of a finding as text."""
    return f"{ended.subject}: over after {as_duration(ended.seconds)} ({_name_of(ended.fault)})"


def _name_of(fault: str) -> str:
    page = find(fault)
    return fault if page is None else f"{page.name}, {page.code}"


_LASTED_SECONDS = 30.0
"""The minimum time, in seconds, that a finding must last for its end to be printed: an Xid is over at once."""


class EndsToTell:
    """Chooses the ends to print: those of findings that were printed and lasted, once for each of them."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def take(self, changes: FindingChanges) -> tuple[FindingEnded, ...]:
        """Return the ends among these changes that are worth printing."""
        self._told |= {(each.fault, each.subject, each.kind) for each in changes.told}
        found = []
        for ended in changes.ended:
            key = ended.fault, ended.subject, ended.kind
            if key in self._told and ended.seconds >= _LASTED_SECONDS:
                found.append(ended)
            self._told.discard(key)
        return tuple(found)


def without_a_run(finding: Finding) -> Finding:
    """Return the finding with the additional remedy for training outside `oomph run`, if it has one."""
    if not finding.without_run:
        return finding
    return replace(finding, remedy=f"{remedy_of(finding)}; {finding.without_run}", without_run="")


def remedy_of(finding: Finding) -> str:
    """Return the finding's own remedy, or the first one on its fault page."""
    page = find(finding.fault)
    if finding.remedy or page is None or not page.remedies:
        return finding.remedy
    return page.remedies[0].filled({}).text


def as_data(finding: Finding) -> dict[str, Any]:
    """Return the finding as JSON values, for programs."""
    page = find(finding.fault)
    return {
        "fault": finding.fault,
        "code": "" if page is None else page.code,
        "subject": finding.subject,
        "kind": finding.kind,
        "message": finding.message,
        "severity": finding.severity,
        "remedy": remedy_of(finding),
        "figures": dict(finding.evidence),
    }
