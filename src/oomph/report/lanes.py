"""One lane for each worker on the line of time: its own part of each step, its memory, and its failures. Pure.

A lane is a picture of at most 120 columns whose darkness is a share, so that 64 of them still fit a screen, and a
worker that the others wait for is the dark one among light ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from oomph.monitor.pace import PaceReading
from oomph.page.document import safe, table
from oomph.report.charts import Margins, TimeLine
from oomph.report.recording import Recording
from oomph.report.workers import HEADS, RecordedWorker, RecordedWorkers, WorkerFailure, in_short, rows, sentences
from oomph.terminal.amounts import as_step_time

_COLUMNS, _LEVELS = 120, 5
_MOST_LANES, _MOST_TALL = 64, 16
"""The most lanes, and the most that are tall enough for words."""

Shares = Mapping[int, float]
"""The share of each column, from 0 to 1, by its number. Columns without steps have none."""


def as_section(recording: Recording, line: TimeLine, margins: Margins) -> Iterator[str]:
    """Yield what happened to several workers, as HTML; nothing if there is only one."""
    found = recording.workers
    if not found.workers:
        return
    yield from (f'<p class="warn">{safe(text[:1].upper() + text[1:])}.</p>\n' for text in sentences(found))
    yield f'<p class="soft">{safe(_told(found))}</p>\n{_legend(found)}'
    yield _lanes(recording, line, margins)
    yield f"<details><summary>Figures of each worker</summary>{table(HEADS, rows(found))}</details>\n"


def _told(found: RecordedWorkers) -> str:
    fewer = f" The {_MOST_LANES} slowest of them have a lane." if len(found.workers) > _MOST_LANES else ""
    return f"{in_short(found)}.{fewer} The charts below are those of worker 0 and its machine."


def _legend(found: RecordedWorkers) -> str:
    shades = "".join(f'<span class="key lane-key l{level}"></span>' for level in range(_LEVELS))
    items = [f"<li>{shades}each worker's own part of a step, from 0 to 100 %: what is left, it waits for others</li>"]
    if any(each.resident_bytes for each in found.workers):
        items.append("<li>below, thin: memory, as a share of TensorFlow's pool, or else of the largest process</li>")
    items.append("<li>blank: no steps</li>")
    return f'<ul class="legend">{"".join(items)}</ul>\n'


def _lanes(recording: Recording, line: TimeLine, margins: Margins) -> str:
    found = recording.workers
    shown = sorted(found.slowest_first[:_MOST_LANES], key=lambda each: each.rank)
    most = max((each.resident_bytes or 0.0 for each in found.workers), default=0.0)
    late = () if found.straggler is None else (found.straggler.rank, *found.straggler.also)
    lanes = "".join(_lane(each, recording, line, most, each.rank in late) for each in shown)
    ticks = "".join(
        f'<span data-at="{tick.value:.2f}" style="left:{line.axis.share(tick.value):.2%}">{safe(tick.label)}</span>'
        for tick in line.axis.ticks
    )
    left, right = margins.as_shares
    size = " low" if len(shown) > _MOST_TALL else ""
    return (
        f'<div class="still-wide"><div class="timeline lanes{size}" style="--still-left:{left:.2%};'
        f'--still-right:{right:.2%}">{lanes}<div class="clock">{ticks}</div></div></div>\n'
    )


def _lane(worker: RecordedWorker, recording: Recording, line: TimeLine, most: float, is_late: bool) -> str:
    strips = (
        _strip("own", _shares(worker.readings, line, _own_share), line, _in_words(worker)),
        _strip("memory", _shares(worker.readings, line, lambda _, after: _memory_share(after, most)), line, ""),
    )
    marks = "".join(_mark(each, worker.rank, recording, line) for each in worker.failures)
    name, late = ('<span class="warn">late: </span>', " late") if is_late else ("", "")
    return f'<div class="name">{name}{worker.rank}</div><div class="track lane{late}">{"".join(strips)}{marks}</div>'


def _in_words(worker: RecordedWorker) -> str:
    time, named = worker.time, f"worker {worker.rank}"
    if time is None:
        return f"{named}: no steps"
    own = f", of which {as_step_time(worker.own_seconds)} are its own part" if worker.own_seconds else ""
    return f"{named}: steps of {as_step_time(time.step)}{own}"


def _strip(kind: str, shares: Shares, line: TimeLine, label: str) -> str:
    """Return a strip of a lane. It covers the whole time, and `page.js` moves it as one."""
    named = f'role="img" aria-label="{safe(label)}"' if label else 'aria-hidden="true"'
    title = f"<title>{safe(label)}</title>" if label else ""
    paths = "".join(f'<path class="l{level}" d="{path}"/>' for level, path in _paths(shares))
    return (
        f'<svg class="{kind}" data-at="{line.begin:.2f}" data-until="{line.end:.2f}" viewBox="0 0 {_COLUMNS} 1"'
        f' preserveAspectRatio="none" {named}>{title}{paths}</svg>'
    )


def _paths(shares: Shares) -> Iterator[tuple[int, str]]:
    """Yield each level that occurs, and its columns as strokes. Neighbours become one stroke."""
    levels = {column: min(int(share * _LEVELS), _LEVELS - 1) for column, share in shares.items()}
    strokes = defaultdict[int, list[list[int]]](list)
    for column, level in sorted(levels.items()):
        own = strokes[level]
        if own and own[-1][0] + own[-1][1] == column:
            own[-1][1] += 1
        else:
            own.append([column, 1])
    for level, own in sorted(strokes.items()):
        yield level, "".join(f"M{begin} .5h{length}" for begin, length in own)


def _shares(
    readings: Sequence[PaceReading], line: TimeLine, share: Callable[[PaceReading, PaceReading], float]
) -> Shares:
    """Return the mean share of each column in which there were steps, weighted by time."""
    width = max(line.end - line.begin, 1.0) / _COLUMNS
    sums, weights = [0.0] * _COLUMNS, [0.0] * _COLUMNS
    for before, after in pairwise(readings):
        value = share(before, after) if _has_steps(before, after) else None
        if value is None or value != value:
            continue
        begin, end = (min(max((each.time - line.begin) / width, 0.0), _COLUMNS) for each in (before, after))
        for column in range(int(begin), min(int(end) + 1, _COLUMNS)):
            weight = min(end, column + 1) - max(begin, column)
            sums[column] += weight * min(max(value, 0.0), 1.0)
            weights[column] += weight
    return {column: sums[column] / weight for column, weight in enumerate(weights) if weight > 0}


def _has_steps(before: PaceReading, after: PaceReading) -> bool:
    return after.attempt == before.attempt and after.steps > before.steps


def _own_share(before: PaceReading, after: PaceReading) -> float:
    """Return the part of the steps that is the worker's own; all of it if the all-reduce is not measured."""
    whole = after.step_seconds - before.step_seconds
    reduced = after.all_reduce_seconds - before.all_reduce_seconds
    return 1.0 - reduced / whole if whole > 0 and reduced == reduced else 1.0


def _memory_share(reading: PaceReading, most: float) -> float:
    """Return how full TensorFlow's pool is, or else how large the process is beside the largest one."""
    if reading.pool_limit_bytes > 0 and reading.pool_bytes == reading.pool_bytes:
        return reading.pool_bytes / reading.pool_limit_bytes
    return reading.resident_bytes / most if most > 0 else float("nan")


def _mark(failure: WorkerFailure, rank: int, recording: Recording, line: TimeLine) -> str:
    """Return the mark of a failure, which leads to where the page tells of it."""
    if not line.begin <= failure.time <= line.end:
        return ""
    near = [
        (abs(incident.time - failure.time), number)
        for number, incident in enumerate(recording.story.incidents, 1)
        if incident.attempt == failure.attempt
    ]
    number = min(near)[1] if near else None
    to, text = "attempts" if number is None else f"incident-{number}", safe(f"worker {rank} {failure.text}")
    return (
        f'<a class="fault" data-at="{failure.time:.2f}" style="left:{line.axis.share(failure.time):.2%}" href="#{to}"'
        f' title="{text}" aria-label="{text}">{"" if number is None else number}</a>'
    )
