"""ShownIncident: an event in a run or a problem with a GPU, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from oomph.journal.events import CheckpointFailed, Diagnosed, GaveUp, Hung, Preempted, Recovered
from oomph.journal.journal import Event
from oomph.monitor.finding import Finding
from oomph.run.report.found import Found, findings_of
from oomph.terminal.amounts import counted

_MOST = 100
"""The maximum number of past incidents to show for a run, in addition to its current findings."""


@dataclass(frozen=True)
class ShownIncident:
    """An incident to display."""

    time: float
    severity: str
    """The severity of the incident: "notice", "warning" or "critical"."""
    fault: str
    """The name of the fault page, as in `oomph explain FAULT`."""
    subject: str
    """The part affected: "GPU 0", "attempt 2"."""
    message: str
    remedy: str = ""
    finding: bool = False
    """True for findings of the monitor, False for events of the run."""
    kind: str = ""
    """Distinguishes findings with the same fault and subject."""
    ended: float | None = None
    """The Unix time when a finding was last detected, or None if it is still present. Other incidents have no
    duration."""
    run: str = ""
    """The path of the run that it belongs to, or empty for a finding of `oomph watch` itself."""

    @property
    def is_present(self) -> bool:
        """True if the incident is a finding that is still present."""
        return self.finding and self.ended is None

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that identifies the same finding from different sources."""
        return self.fault, self.subject, self.kind


def incident_of(finding: Finding, time: float) -> ShownIncident:
    """Convert a finding to an incident."""
    return ShownIncident(
        time, finding.severity, finding.fault, finding.subject, finding.message, finding.remedy, True, finding.kind
    )


def incidents_of(events: Sequence[Event], going_on: bool = True, run: str = "") -> tuple[ShownIncident, ...]:
    """Return the incidents of a run, whose path is `run`, oldest first. Once it has ended, so have its findings."""
    over = None if going_on or not events else events[-1].time
    newest = islice((each for event in reversed(events) if (each := _incident(event, run)) is not None), _MOST)
    told = [*reversed([*newest])]
    told += [_found(each, over, run) for each in findings_of(events)]
    told.sort(key=lambda each: each.time)
    over_by_now = [each for each in told if not each.is_present]
    left_out = {id(each) for each in over_by_now[:-_MOST]}
    return tuple(each for each in told if id(each) not in left_out)


def _found(each: Found, over: float | None, run: str) -> ShownIncident:
    ended = over if each.end is None else each.end
    about = (each.severity, each.fault, each.subject, each.message, each.remedy)
    return ShownIncident(each.begin, *about, finding=True, kind=each.kind, ended=ended, run=run)


def _incident(event: Event, run: str) -> ShownIncident | None:
    """Return the incident that an event reports, or None if there is none. Findings are collected elsewhere."""
    match event.fact:
        case Diagnosed(fault=fault):
            about = ("critical", fault, "ended by this fault")
        case Recovered(batch=batch, micro_batch=micro_batch, piece=piece):
            size = micro_batch or piece or "?"
            continues = f"batch {'?' if batch is None else batch} continues as micro-batches of {size}"
            about = ("notice", "device-oom", continues)
        case Hung(seconds=seconds, line=line):
            about = ("critical", "hang", f"no progress for {seconds or 0:.0f} s" + (f" at {line}" if line else ""))
        case GaveUp(fault=fault, reason=reason):
            about = ("critical", fault, reason)
        case Preempted(signal=signal, steps=steps):
            about = ("notice", "preempted", f"preempted by {signal} after {counted(steps, 'step')}")
        case CheckpointFailed(reason=reason):
            about = ("warning", "checkpoint-failure", reason)
        case _:
            return None
    severity, fault, message = about
    worker = getattr(event.fact, "worker", None)
    subject = f"attempt {event.attempt}" + ("" if worker is None else f", worker {worker}")
    return ShownIncident(event.time, severity, fault, subject, message, run=run)
