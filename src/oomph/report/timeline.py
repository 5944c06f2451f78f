"""The timeline of a run: its attempts as bars, with each fault and each change of the micro-batch. Pure.

The bars lie above the charts and share their time axis: as pictures by equal margins, and with scripts in `page.js`,
which moves whatever has `data-at`.
"""

from __future__ import annotations

from collections.abc import Iterator

from oomph.page.document import safe
from oomph.report.charts import Margins, Marking, TimeLine
from oomph.report.recording import Recording, ReportedAttempt, micro_batches_of
from oomph.run.report.found import CRITICAL, NOTICE, WARNING
from oomph.terminal.amounts import as_duration, counted
from oomph.terminal.endings import ProcessEnd

_MOST_ROWS = 40
"""The most attempts to draw: the list below the picture has all of them."""


def timeline_of(recording: Recording) -> TimeLine:
    """Return the time of the run, and what its charts mark."""
    restarts = (
        Marking(attempt.begin, f"attempt {attempt.number} starts", "attempts", "restart")
        for attempt in recording.attempts[1:]
    )
    faults = (
        Marking(incident.time, f"{incident.fault}: {incident.done}", f"incident-{number}", label=str(number))
        for number, incident in enumerate(recording.story.incidents, 1)
        if recording.begin <= incident.time <= recording.end
    )
    return TimeLine(recording.begin, recording.end, (*restarts, *faults), recording.story.findings)


def as_bars(recording: Recording, line: TimeLine, margins: Margins) -> str:
    """Return the attempts as bars on one line of time, one below the other, as HTML that fits any width."""
    shown = recording.attempts[-_MOST_ROWS:]
    rows = "".join((*(_row(attempt, recording, line) for attempt in shown), *_rows_of_findings(line)))
    ticks = "".join(f"<span {_at(tick.value, line)}>{safe(tick.label)}</span>" for tick in line.axis.ticks)
    left, right = margins.as_shares
    return (
        f'<div class="still-wide"><div class="timeline" style="--still-left:{left:.2%};--still-right:{right:.2%}">'
        f'{rows}<div class="clock">{ticks}</div></div></div>\n'
    )


def _row(attempt: ReportedAttempt, recording: Recording, line: TimeLine) -> str:
    begin, end = attempt.begin, attempt.end or _end_of(attempt, recording)
    bar = f'<div class="attempt {_kind_of(attempt, recording)}" {_at(begin, line, max(end, begin))}></div>'
    splits = "".join(
        f'<div class="split" {_at(at, line)} title="micro-batches of {size}"></div>'
        for at, size in micro_batches_of(recording)
        if begin <= at <= end
    )
    faults = "".join(
        f'<a class="fault" {_at(incident.time, line)} href="#incident-{number}"'
        f' title="{safe(incident.fault)}" aria-label="{number}: {safe(incident.fault)}">{number}</a>'
        for number, incident in enumerate(recording.story.incidents, 1)
        if incident.attempt == attempt.number and line.begin <= incident.time <= line.end
    )
    return f'<div class="name">attempt {attempt.number}</div><div class="track">{bar}{splits}{faults}</div>'


def _rows_of_findings(line: TimeLine) -> Iterator[str]:
    """Yield a row for each fault that the monitor found, with the times that the charts shade."""
    bars: dict[str, list[str]] = {}
    for number, found in enumerate(line.findings, 1):
        if line.begin <= found.begin <= line.end:
            side = "after" if line.axis.share(found.begin) < 0.5 else "before"  # there is room for the name
            bars.setdefault(found.fault, []).append(
                f'<a class="finding {safe(found.severity)}" {_at(found.begin, line, found.until(line.end))}'
                f' href="#finding-{number}"><span class="{side}">{safe(found.fault)}</span></a>'
            )
    for number, row in enumerate(bars.values()):
        yield f'<div class="name">{"" if number else "found"}</div><div class="track findings">{"".join(row)}</div>'


def keys_of(recording: Recording, line: TimeLine) -> str:
    """Return what the signs in the bars and charts mean, of those that occur."""
    attempts = {_kind_of(attempt, recording) for attempt in recording.attempts}
    severities = {found.severity for found in line.findings}
    kinds = {marking.kind for marking in line.markings}
    signs = (
        ("attempt", "attempt that did not finish", "ended" in attempts),
        ("attempt good", "attempt that finished", "good" in attempts),
        ("attempt going-on", "attempt that is going on", "going-on" in attempts),
        ("restart-key", "start of an attempt", "restart" in kinds),
        ("fault-key", "fault, as numbered below", "" in kinds),
        ("split-key", "change of the micro-batch", bool(micro_batches_of(recording))),
        *((f"finding {each}", f"{name} of the monitor", each in severities) for each, name in _NAMES.items()),
    )
    items = "".join(f'<li><span class="key {key}"></span>{name}</li>' for key, name, occurs in signs if occurs)
    return f'<ul class="legend">{items}</ul>\n' if items else ""


_NAMES = {NOTICE: "notice", WARNING: "warning", CRITICAL: "critical finding"}


def _at(at: float, line: TimeLine, until: float | None = None) -> str:
    """Return the attributes that place an element at a moment, or between two of them."""
    share = line.axis.share
    if until is None:
        return f'data-at="{at:.2f}" style="left:{share(at):.2%}"'
    return (
        f'data-at="{at:.2f}" data-until="{until:.2f}" style="left:{share(at):.2%};width:{share(until) - share(at):.2%}"'
    )


def _kind_of(attempt: ReportedAttempt, recording: Recording) -> str:
    return "good" if attempt.returncode == 0 else "going-on" if _is_open(attempt, recording) else "ended"


def _is_open(attempt: ReportedAttempt, recording: Recording) -> bool:
    return recording.is_going_on and attempt == recording.attempts[-1] and attempt.end is None


def _end_of(attempt: ReportedAttempt, recording: Recording) -> float:
    """Return when an attempt whose end nobody recorded was last seen, or the beginning of the next one."""
    if attempt == recording.attempts[-1]:
        return recording.end
    return next(each.begin for each in recording.attempts if each.number > attempt.number)


def _duration(attempt: ReportedAttempt, recording: Recording) -> str:
    if attempt.seconds is not None:
        return as_duration(attempt.seconds)
    if recording.is_clock_changed:
        return "for an unknown time, since the clock was changed"
    return as_duration(max(_end_of(attempt, recording) - attempt.begin, 0.0))


def in_words(attempt: ReportedAttempt, recording: Recording) -> str:
    """Describe an attempt in one line: how long, from which step, and how it ended."""
    parts = [_duration(attempt, recording)]
    parts.append("from the beginning" if not attempt.resumed_at else f"from step {attempt.resumed_at:,}")
    if attempt.steps:
        parts.append(f"{counted(attempt.steps, 'step')} done, {attempt.saved:,} saved")
    if _is_open(attempt, recording):
        parts.append("going on")
    elif attempt.returncode == 0:
        parts.append("finished")
    elif attempt.returncode is None:
        parts.append("nobody saw its end")
    elif attempt.asked_for_another:
        parts.append("asked for a new process")
    else:
        parts.append(ProcessEnd(attempt.returncode).predicate)
    return ", ".join(parts)
