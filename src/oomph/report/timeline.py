"""The timeline of a run: its attempts as bars, with each fault and each change of the micro-batch. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.page import chart as drawing
from oomph.page.axis import Axis
from oomph.page.document import safe
from oomph.report.charts import Marking, TimeLine
from oomph.report.recording import Recording, ReportedAttempt
from oomph.terminal.amounts import as_duration, counted
from oomph.terminal.endings import ProcessEnd

_ROW, _BAR, _HEAD = 26, 16, 30
_MOST_ROWS = 40
"""The most attempts to draw: the list below the picture has all of them."""
_LEFT = 84


def timeline_of(recording: Recording) -> TimeLine:
    """Return the time of the run, and what its charts mark."""
    restarts = (
        Marking(attempt.begin, f"attempt {attempt.number} starts", "attempts", "restart")
        for attempt in recording.attempts[1:]
    )
    faults = (
        Marking(incident.time, f"{incident.fault}: {incident.done}", f"incident-{number}")
        for number, incident in enumerate(recording.story.incidents, 1)
        if recording.begin <= incident.time <= recording.end
    )
    return TimeLine(recording.begin, recording.end, (*restarts, *faults), recording.story.findings)


def as_picture(recording: Recording, line: TimeLine) -> str:
    """Draw the attempts as bars, one below the other."""
    shown = recording.attempts[-_MOST_ROWS:]
    height = len(shown) * _ROW + _HEAD
    canvas = _Bars(line.axis, Axis(0.0, 1.0, ()), drawing.WIDTH, height)
    return drawing.drawn(canvas, "timeline of the attempts", _rows(canvas, recording, shown, line), has_links=True)


class _Bars(drawing.Canvas):
    """A canvas with the names of attempts at its left."""

    @property
    def left(self) -> float:
        """The x coordinate at which the bars begin."""
        return float(_LEFT)


def _rows(canvas: _Bars, recording: Recording, shown: tuple[ReportedAttempt, ...], line: TimeLine) -> Iterator[str]:
    for row, attempt in enumerate(shown):
        top = row * _ROW + 4
        end = attempt.end or _end_of(attempt, recording)
        x, width = _between(canvas, attempt.begin, end)
        kind = "good" if attempt.returncode == 0 else "going-on" if _is_open(attempt, recording) else "ended"
        yield f'<text x="{_LEFT - 8}" y="{top + 12}" text-anchor="end">attempt {attempt.number}</text>'
        yield (
            f'<rect class="attempt {kind}" x="{x:g}" y="{top}" width="{width:g}" height="{_BAR}" rx="2">'
            f"<title>{safe(in_words(attempt, recording))}</title></rect>"
        )
        for at, size in attempt.micro_batches:
            place, _ = _between(canvas, at, at)
            yield f'<path class="split" d="M{place:g},{top}v{_BAR}"><title>micro-batches of {size}</title></path>'
        for number, incident in enumerate(recording.story.incidents, 1):
            if incident.attempt == attempt.number and line.begin <= incident.time <= line.end:
                at, _ = _between(canvas, incident.time, incident.time)
                name, where = safe(incident.fault), f'cx="{at:g}" cy="{top + _BAR / 2:g}" r="6"'
                dot = f'<circle class="fault" {where}><title>{name}</title></circle>'
                yield f'<a href="#incident-{number}" aria-label="{name}">{dot}</a>'


def _between(canvas: _Bars, begin: float, end: float) -> tuple[float, float]:
    """Return the x coordinate and the width of a stretch of time."""
    first, _ = canvas.at(begin, 0)
    final, _ = canvas.at(end, 0)
    return first, max(final - first, 2.0)


def _is_open(attempt: ReportedAttempt, recording: Recording) -> bool:
    return recording.is_going_on and attempt == recording.attempts[-1] and attempt.end is None


def _end_of(attempt: ReportedAttempt, recording: Recording) -> float:
    """Return when an attempt whose end nobody recorded was last seen, or the beginning of the next one."""
    if attempt == recording.attempts[-1]:
        return recording.end
    return next(each.begin for each in recording.attempts if each.number > attempt.number)


def in_words(attempt: ReportedAttempt, recording: Recording) -> str:
    """Describe an attempt in one line: how long, from which step, and how it ended."""
    end = attempt.end or _end_of(attempt, recording)
    parts = [as_duration(max(end - attempt.begin, 0.0))]
    parts.append("from the beginning" if not attempt.resumed_at else f"from step {attempt.resumed_at:,}")
    if attempt.steps:
        parts.append(f"{counted(attempt.steps, 'step', ',')} done, {attempt.saved:,} saved")
    if _is_open(attempt, recording):
        parts.append("going on")
    elif attempt.returncode == 0:
        parts.append("finished")
    elif attempt.returncode is None:
        parts.append("nobody saw its end")
    else:
        parts.append(ProcessEnd(attempt.returncode).predicate)
    return ", ".join(parts)
