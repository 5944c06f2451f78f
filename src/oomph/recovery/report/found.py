"""What the monitor found in a run, with the time in which it was there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from oomph.journal import Event

NOTICE = "notice"
"""The severity of what asks for nothing, and is no fault."""
_SEVERITIES = (NOTICE, "warning", "critical")


@dataclass(frozen=True)
class Found:
    """One finding, in its last words."""

    fault: str
    code: str
    """Of the page; empty in the journal of an older oomph."""
    subject: str
    kind: str
    message: str
    remedy: str
    severity: str
    """The highest that was told."""
    attempt: int
    begin: float
    """When it was told; Unix time, as `since` and `end`."""
    since: float
    """When it came last: it may have been away for a while."""
    end: float | None = None
    """When it was there last; None: it is there still, as far as is known."""
    seconds: float = 0.0
    """How long it was there before, without the time since `since` if it has no end."""


def findings_of(events: Iterable[Event]) -> list[Found]:
    """Every finding of a run, in the order in which they began. What has no end of its own ends with its attempt.

    What comes back within minutes, or becomes more severe, is one finding.
    """
    found: list[Found] = []
    attempt = 0
    for event in events:
        if event.attempt != attempt or event.name == "attempt-ended":
            found = [each if each.end is not None else _ended(each, event.time) for each in found]
            attempt = event.attempt
        if event.name == "finding":
            _add(found, event)
        elif event.name == "finding-ended" and (place := _place(found, event)) is not None:
            until = event.data.get("until")
            found[place] = _ended(found[place], until if isinstance(until, int | float) else event.time)
    return found


def each_once(findings: Iterable[Found]) -> tuple[Found, ...]:
    """Those of the same fault, subject and kind as one: in the last words, and with the time of all."""
    once: dict[tuple[str, str, str], Found] = {}
    for each in findings:
        before = once.get(_key(each))
        if before is not None:
            severity, seconds = _worse(before, each), round(before.seconds + each.seconds, 3)
            each = replace(each, begin=before.begin, severity=severity, seconds=seconds)
        once[_key(each)] = each
    return tuple(once.values())


def _add(found: list[Found], event: Event) -> None:
    told, place = _read(event), _place(found, event)
    if place is None:
        found.append(told)
        return
    before = found[place]
    told = replace(told, severity=_worse(before, told))
    if before.end is None:
        found[place] = replace(told, begin=before.begin, since=before.since, seconds=before.seconds)
    elif event.data.get("again"):
        found[place] = replace(told, begin=before.begin, seconds=before.seconds)
    else:
        found.append(_read(event))


def _worse(one: Found, other: Found) -> str:
    return max(one.severity, other.severity, key=_SEVERITIES.index)


def _ended(each: Found, end: float) -> Found:
    return replace(each, end=end, seconds=round(each.seconds + max(end - each.since, 0.0), 3))


def _place(found: Sequence[Found], event: Event) -> int | None:
    """Where the last finding of this attempt is that the event is about."""
    about = (event.attempt, *_key(_read(event)))
    places = (place for place in reversed(range(len(found))) if (found[place].attempt, *_key(found[place])) == about)
    return next(places, None)


def _key(each: Found) -> tuple[str, str, str]:
    return each.fault, each.subject, each.kind


def _read(event: Event) -> Found:
    fault, code, subject, kind = (_text(event, name) for name in ("fault", "code", "subject", "kind"))
    message, remedy, severity = (_text(event, name) for name in ("message", "remedy", "severity"))
    severity = severity if severity in _SEVERITIES else "warning"
    return Found(
        fault, code, subject, kind, message, remedy, severity, event.attempt, begin=event.time, since=event.time
    )


def _text(event: Event, name: str) -> str:
    value = event.data.get(name)
    return value if isinstance(value, str) else ""
