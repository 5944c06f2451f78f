"""ShownIncident: something that happened to a run, or is wrong with a GPU, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from oomph.journal.journal import Event
from oomph.monitor.finding import Finding
from oomph.run.report.found import Found, findings_of
from oomph.terminal.amounts import counted

_MOST = 100
"""The newest incidents of a run, beside the findings that are there now; a view shows no more."""


@dataclass(frozen=True)
class ShownIncident:
    """One incident."""

    time: float
    severity: str
    """"notice", "warning" or "critical"."""
    fault: str
    """The name of its page: `oomph explain FAULT`."""
    subject: str
    """Its subject: "GPU 0", "attempt 2"."""
    message: str
    remedy: str = ""
    finding: bool = False
    """True if the monitor found it; else the run went through it."""
    kind: str = ""
    """Tells apart findings of the same fault and subject."""
    ended: float | None = None
    """Unix time at which a finding was there last; None: it is there still. Anything else happens at once."""

    @property
    def is_present(self) -> bool:
        """True if it is a finding that is there now."""
        return self.finding and self.ended is None

    @property
    def key(self) -> tuple[str, str, str]:
        """Key shared with the same finding of another source."""
        return self.fault, self.subject, self.kind


def incident_of(finding: Finding, time: float) -> ShownIncident:
    """A finding as an incident."""
    return ShownIncident(
        time, finding.severity, finding.fault, finding.subject, finding.message, finding.remedy, True, finding.kind
    )


def incidents_of(events: Sequence[Event], going_on: bool = True) -> tuple[ShownIncident, ...]:
    """The incidents of a run, oldest first. With the run, what was found in it ends."""
    over = None if going_on or not events else events[-1].time
    told = [_TOLD[event.name](event) for event in events if event.name in _TOLD]
    told += [_found(each, over) for each in findings_of(events)]
    told.sort(key=lambda each: each.time)
    over_by_now = [each for each in told if not each.is_present]
    left_out = {id(each) for each in over_by_now[:-_MOST]}
    return tuple(each for each in told if id(each) not in left_out)


def _found(each: Found, over: float | None) -> ShownIncident:
    ended = over if each.end is None else each.end
    about = (each.severity, each.fault, each.subject, each.message, each.remedy)
    return ShownIncident(each.begin, *about, finding=True, kind=each.kind, ended=ended)


def _diagnosed(event: Event) -> ShownIncident:
    return ShownIncident(
        event.time, "critical", _text(event.data, "fault"), f"attempt {event.attempt}", "ended by this fault"
    )


def _recovered(event: Event) -> ShownIncident:
    data = event.data
    size = data.get("micro_batch") or data.get("piece")
    message = f"batch {data.get('batch', '?')} continues as micro-batches of {size or '?'}"
    return ShownIncident(event.time, "notice", "device-oom", f"attempt {event.attempt}", message)


def _hang(event: Event) -> ShownIncident:
    where = _text(event.data, "line")
    message = f"no progress for {float(event.data.get('seconds') or 0):.0f} s" + (f" at {where}" if where else "")
    return ShownIncident(event.time, "critical", "hang", f"attempt {event.attempt}", message)


def _gave_up(event: Event) -> ShownIncident:
    return ShownIncident(
        event.time, "critical", _text(event.data, "fault"), f"attempt {event.attempt}", _text(event.data, "reason")
    )


def _preempted(event: Event) -> ShownIncident:
    message = f"preempted by {_text(event.data, 'signal')} after {counted(int(event.data.get('steps') or 0), 'step')}"
    return ShownIncident(event.time, "notice", "preempted", f"attempt {event.attempt}", message)


def _checkpoint_failed(event: Event) -> ShownIncident:
    return ShownIncident(
        event.time, "warning", "checkpoint-failure", f"attempt {event.attempt}", _text(event.data, "reason")
    )


_TOLD: Mapping[str, Callable[[Event], ShownIncident]] = MappingProxyType(
    {
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
