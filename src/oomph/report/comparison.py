"""Several runs side by side: their figures in one table, and their curves on one axis of elapsed time. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oomph.page.axis import Unit, label
from oomph.page.document import document, safe, table
from oomph.report import charts
from oomph.report.charts import Chart, Marking, PlottedCurve, TimeLine
from oomph.report.curves import INTERVALS, Column, Curves
from oomph.report.html import HOW_TO_ZOOM, as_inline_json, duration_of, fault_link, fault_pages, figures, own, vendored
from oomph.report.incidents import ReportedIncident, reported
from oomph.report.processes import TOGETHER
from oomph.report.recording import Recording
from oomph.run.report.labels import meaning
from oomph.run.report.summary import Summary, result_in_words
from oomph.terminal.amounts import as_duration, as_size, counted, listed


class _Run(NamedTuple):
    """A run that is compared."""

    name: str
    number: int
    recording: Recording
    incidents: Sequence[ReportedIncident]

    def anchor(self, incident: ReportedIncident) -> str:
        """Return the name of the place that tells of an incident."""
        return f"run-{self.number}-incident-{incident.number}"


@dataclass(frozen=True)
class _Compared:
    """A chart with one curve for each run."""

    key: str
    title: str
    unit: Unit
    metric: str
    limit: str = ""
    """The metric that the others must stay below, if there is one."""
    from_zero: bool = True


_CHARTS = (
    _Compared(
        "pool",
        "Memory held by TensorFlow",
        Unit.BYTES,
        "training.allocator_in_use_bytes",
        "training.allocator_limit_bytes",
    ),
    _Compared("gpu-memory", "GPU memory, of the fullest GPU", Unit.BYTES, "memory_used_bytes", "memory_total_bytes"),
    _Compared("gpu-utilization", "GPU utilization, of the busiest GPU", Unit.RATIO, "utilization_ratio"),
    _Compared(
        "gpu-temperature",
        "GPU temperature, of the hottest GPU",
        Unit.CELSIUS,
        "temperature_celsius",
        "temperature_slowdown_celsius",
        from_zero=False,
    ),
    _Compared("host-memory", "Memory of the script's processes", Unit.BYTES, TOGETHER, "host.memory_total_bytes"),
    _Compared("step-time", "Step time", Unit.SECONDS, "step_seconds"),
    _Compared("input-wait", "Waiting for data", Unit.RATIO, "input_wait_ratio"),
    _Compared("speed", "Samples per second", Unit.NUMBER, "examples_per_second"),
    _Compared("loss", "Loss", Unit.NUMBER, "training.recent_loss", from_zero=False),
)
_MOST_INCIDENTS = 50
"""The most incidents of one run to list: its own report has all of them."""


def as_page(recordings: Sequence[Recording]) -> str:
    """Return a page that compares the runs."""
    runs = _named(recordings)
    end = max((each.end - each.begin for each in recordings), default=1.0)
    line, width = TimeLine(0.0, end, tuple(_markings(runs)), is_elapsed=True), max(end / INTERVALS, 1.0)
    times = tuple(round(place * width, 2) for place in range(int(end / width) + 1))
    drawn = list(_charts(runs, len(times), width))
    body = [f"<main>{''.join(_body(runs, drawn, times, line))}</main>"]
    scripts = []
    if drawn:
        data = {**charts.as_data(drawn, times, line), "offset": 0, "going_on": False}
        body.append(f'<script type="application/json" id="data">{as_inline_json(data)}</script>')
        scripts = [vendored("uPlot.iife.min.js"), own("page.js")]
    return document("oomph: runs compared", body, vendored("uPlot.min.css") + own("page.css"), scripts)


def _named(recordings: Sequence[Recording]) -> list[_Run]:
    """Name each run after its directory, with its number if two have the same name."""
    plain = [each.path.resolve().name for each in recordings]
    return [
        _Run(f"{name} ({number})" if plain.count(name) > 1 else name, number, recording, reported(recording))
        for number, (name, recording) in enumerate(zip(plain, recordings, strict=True), 1)
    ]


def _markings(runs: Sequence[_Run]) -> Iterator[Marking]:
    for run in runs:
        for each in run.incidents[:_MOST_INCIDENTS]:
            if run.recording.begin <= each.time <= run.recording.end:
                title = f"{run.name}: {each.fault}: {each.decision}"
                after, place = each.time - run.recording.begin, run.anchor(each)
                yield Marking(after, title, place, colour=run.number - 1, label=str(each.number))


def _body(runs: Sequence[_Run], drawn: Sequence[Chart], times: Sequence[float], line: TimeLine) -> Iterator[str]:
    yield f"<h1>{counted(len(runs), 'run')} side by side</h1>\n"
    rows = ([head, *(tell(run.recording) for run in runs)] for head, tell in _ROWS)
    yield table(("", *(run.name for run in runs)), [row for row in rows if any(row[1:])])
    if drawn:
        yield "<h2>Over time</h2>\n"
        marked = " A line in the colour of its run marks an incident, and its dot leads there." if line.markings else ""
        yield f'<p class="soft">Times count from the beginning of each run.{marked} {HOW_TO_ZOOM}</p>\n'
        yield from figures(drawn, times, line)
    if any(run.incidents for run in runs):
        yield "<h2>Incidents</h2>\n"
        yield from (part for run in runs for part in _incidents(run))
        yield from fault_pages(each.page for run in runs for each in run.incidents)


def _incidents(run: _Run) -> Iterator[str]:
    yield f"<h3>{safe(run.name)}</h3>\n"
    if not run.incidents:
        yield "<p>none</p>\n"
        return
    yield "<ol>"
    for each in run.incidents[:_MOST_INCIDENTS]:
        since = max(each.time - run.recording.begin, 0.0)
        after = "" if run.recording.is_clock_changed else f"after {as_duration(since)}, "
        cost = f"; cost: {each.cost}" if each.cost else ""
        said = f"{after}attempt {each.attempt}: {each.decision}{cost}"
        yield f'<li id="{run.anchor(each)}">{fault_link(each.fault, each.page)}, {safe(said)}</li>\n'
    yield "</ol>\n"
    left = len(run.incidents) - _MOST_INCIDENTS
    more = f"… and {left:,} more. All" if left > 0 else "All"
    command = shlex.join(["oomph", "report", str(run.recording.path)])
    yield f"<p>{more} that is known of them: <code>{safe(command)}</code></p>\n"


def _seconds(summary: Summary) -> str:
    cost = {"recovering": summary.seconds_recovering, "restarting": summary.seconds_restarting}
    return ", ".join(f"{as_duration(seconds)} {what}" for what, seconds in cost.items() if seconds >= 1)


def _size(size: int | None) -> str:
    return "" if size is None else as_size(size)


def _mean(key: str, unit: Unit) -> Callable[[Recording], str]:
    def tell(recording: Recording) -> str:
        mean = recording.curves.means.get(key)
        return "" if mean is None else label(mean, unit)

    return tell


def _found(recording: Recording) -> str:
    return _counted(Counter(each.fault for each in recording.story.findings))


def _counted(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}×" for name, count in names.items())


def _result(recording: Recording) -> str:
    summary = recording.summary
    return result_in_words(summary) or meaning(summary.exactness, summary.steps_repeated, summary.reasons)


_ROWS: tuple[tuple[str, Callable[[Recording], str]], ...] = (
    ("script", lambda each: each.command),
    ("outcome", lambda each: each.outcome),
    ("result", _result),
    ("duration", duration_of),
    ("steps", lambda each: f"{each.summary.steps:,}" if each.summary.steps else ""),
    ("steps repeated", lambda each: f"{each.summary.steps_repeated:,}" if each.summary.restarts else ""),
    ("attempts", lambda each: str(each.summary.attempts)),
    ("faults", lambda each: _counted(each.summary.faults)),
    ("found by the monitor", _found),
    ("micro-batch", lambda each: "" if each.summary.micro_batch is None else f"{each.summary.micro_batch:,}"),
    ("time lost", lambda each: _seconds(each.summary)),
    ("step time, mean", _mean("step_seconds", Unit.SECONDS)),
    ("waiting for data, mean", _mean("input_wait_ratio", Unit.RATIO)),
    ("peak device memory", lambda each: _size(each.summary.device_peak_bytes)),
    ("peak host memory", lambda each: _size(each.summary.host_peak_bytes)),
)


def _charts(runs: Sequence[_Run], count: int, width: float) -> Iterator[Chart]:
    for each in _CHARTS:
        curves = tuple(
            PlottedCurve(
                run.name,
                _on_grid(run.recording, values, count, width),
                mean=run.recording.curves.means.get(each.metric),
            )
            for run in runs
            for values in (_highest(run.recording.curves, each.metric),)
            if any(value is not None for value in values)
        )
        if curves:
            yield Chart(
                each.key, each.title, each.unit, (*curves, *_limits(runs, each, count)), from_zero=each.from_zero
            )


def _limits(runs: Sequence[_Run], compared: _Compared, count: int) -> Iterator[PlottedCurve]:
    """Yield each distinct limit, with the names of its runs unless all runs share it."""
    names: dict[float, list[str]] = {}
    for run in runs if compared.limit else ():
        known = [value for value in _highest(run.recording.curves, compared.limit) if value is not None]
        if known:
            names.setdefault(max(known), []).append(run.name)
    for limit, whose in names.items():
        name = "limit" if len(names) == 1 else f"limit of {listed(whose)}"
        yield PlottedCurve(name, (limit,) * count, is_limit=True)


def _highest(curves: Curves, metric: str) -> Column:
    """Return a curve, or the highest of all GPUs at each time if it is a metric of theirs."""
    if metric in curves.columns:
        return curves.columns[metric]
    each = [column for name, column in curves.columns.items() if name.startswith("gpu") and name.endswith(f".{metric}")]
    return tuple(
        max((value for value in values if value is not None), default=None) for values in zip(*each, strict=True)
    )


def _on_grid(recording: Recording, values: Column, count: int, width: float) -> Column:
    """Return the largest value of each interval of the common axis."""
    grid: dict[int, float] = {}
    for at, value in zip(recording.curves.times, values, strict=False):
        place = int((at - recording.begin) / width)
        if value is not None:
            grid[place] = max(grid.get(place, value), value)
    return _filled(grid, count)


def _filled(grid: Mapping[int, float], count: int) -> Column:
    """Repeat a value in the interval after it, since a sample may fall just beyond the border of an interval."""
    return tuple(grid.get(place, grid.get(place - 1)) for place in range(count))
