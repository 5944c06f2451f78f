"""Incident: something that happened to a run, or is wrong with a GPU, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from oomph.journal import Event
from oomph.monitor.finding import Finding
from oomph.recovery.report.amounts import counted

Severity = Literal["notice", "warning", "critical"]
_MOST = 100
"""The newest incidents of a run; a view shows no more."""


@dataclass(frozen=True)
class Incident:
    """One incident."""

    time: float
    severity: Severity
    fault: str
    """The name of its page: `oomph explain FAULT`."""
    subject: str
    """What it concerns: "GPU 0", "attempt 2"."""
    message: str
    remedy: str = ""
    finding: bool = False
    """Whether the monitor found it; else the run went through it."""


def incident_of(finding: Finding, time: float) -> Incident:
    """A finding as an incident."""
    return Incident(time, finding.severity, finding.fault, finding.subject, finding.message, finding.remedy, True)


def incidents_of(events: Iterable[Event]) -> tuple[Incident, ...]:
    """The incidents of a run, oldest first."""
    told = [_TOLD[event.name](event) for event in events if event.name in _TOLD]
    return tuple(told[-_MOST:])


def _finding(event: Event) -> Incident:
    data = event.data
    severity: Any = data.get("severity")
    return Incident(
        event.time,
        severity if severity in ("notice", "warning", "critical") else "warning",
        _text(data, "fault"),
        _text(data, "subject"),
        _text(data, "message"),
        _text(data, "remedy"),
        finding=True,
    )


def _diagnosed(event: Event) -> Incident:
    return Incident(
        event.time, "critical", _text(event.data, "fault"), f"attempt {event.attempt}", "ended by this fault"
    )


def _recovered(event: Event) -> Incident:
    data = event.data
    size = data.get("micro_batch") or data.get("piece")
    message = f"batch {data.get('batch', '?')} continues as micro-batches of {size or '?'}"
    return Incident(event.time, "notice", "device-oom", f"attempt {event.attempt}", message)


def _hang(event: Event) -> Incident:
    where = _text(event.data, "line")
    message = f"no progress for {float(event.data.get('seconds') or 0):.0f} s" + (f" at {where}" if where else "")
    return Incident(event.time, "critical", "hang", f"attempt {event.attempt}", message)


def _gave_up(event: Event) -> Incident:
    return Incident(
        event.time, "critical", _text(event.data, "fault"), f"attempt {event.attempt}", _text(event.data, "reason")
    )


def _preempted(event: Event) -> Incident:
    message = f"preempted by {_text(event.data, 'signal')} after {counted(int(event.data.get('steps') or 0), 'step')}"
    return Incident(event.time, "notice", "preempted", f"attempt {event.attempt}", message)


def _checkpoint_failed(event: Event) -> Incident:
    return Incident(
        event.time, "warning", "checkpoint-failure", f"attempt {event.attempt}", _text(event.data, "reason")
    )


_TOLD: Mapping[str, Callable[[Event], Incident]] = MappingProxyType(
    {
        "finding": _finding,
        "diagnosed": _diagnosed,
        "recovered": _recovered,
        "hang": _hang,
        "gave-up": _gave_up,
        "preempted": _preempted,
        "checkpoint-failed": _checkpoint_failed,
    }
)
"""Event → incident."""


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
