"""FindingChanges: what a sample has changed, also as JSON lines for the sampler's parent. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from oomph.files.conforming import conforms
from oomph.monitor.finding import SEVERITIES, Finding


@dataclass(frozen=True)
class FindingEnded:
    """A finding that is over; fault, subject and kind are those of the finding."""

    fault: str
    subject: str
    kind: str = ""
    until: float = 0.0
    """Unix time when it was last seen."""
    seconds: float = 0.0
    """The seconds that the finding lasted until then, since it was reported or came back."""


@dataclass(frozen=True)
class FindingChanges:
    """Findings that are new, have come back, or are over."""

    told: tuple[Finding, ...] = ()
    returned: tuple[Finding, ...] = ()
    """Findings that came back soon after their end: recorded, but not reported again."""
    ended: tuple[FindingEnded, ...] = ()


_KEY = ("fault", "subject", "kind")
_TEXTS = (*_KEY, "message", "remedy")
_AGAIN, _ENDED = "again", "ended"
"""The marks of a finding that has come back, and of one that is over."""


def to_lines(changes: FindingChanges) -> Iterator[str]:
    """A line for each finding that is new, has come back or is over, with its line end."""
    for finding in changes.told:
        yield _line(_document(finding))
    for finding in changes.returned:
        yield _line({**_document(finding), _AGAIN: True})
    for ended in changes.ended:
        yield _line({_ENDED: asdict(ended)})


def from_documents(documents: Iterable[Any]) -> FindingChanges:
    """The changes in parsed lines, ignoring anything else."""
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
    """The finding in a document; None if it is something else."""
    if not isinstance(document, dict) or not isinstance(document.get("evidence"), dict):
        return None
    if not all(isinstance(document.get(name), str) for name in _TEXTS) or document.get("severity") not in SEVERITIES:
        return None
    return Finding(**{name: document[name] for name in (*_TEXTS, "severity", "evidence")})


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
    """Write one line; what JSON cannot hold becomes text."""
    return json.dumps(document, default=str) + "\n"
