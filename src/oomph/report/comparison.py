"""Several runs side by side: their figures in one table, and their curves on one axis of elapsed time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from oomph.page.axis import Unit, label
from oomph.page.document import document, safe, table
from oomph.report import charts
from oomph.report.charts import Chart, TimeLine
from oomph.report.curves import INTERVALS, Column, Curves
from oomph.report.html import as_inline_json, figures, own, vendored
from oomph.report.recording import Recording
from oomph.run.report.labels import meaning
from oomph.run.report.summary import Summary
from oomph.terminal.amounts import as_duration, as_size, counted

_CHARTS = (
    ("pool", "Memory held by TensorFlow", Unit.BYTES, "training.allocator_in_use_bytes", True),
    ("gpu-memory", "GPU memory, of the fullest GPU", Unit.BYTES, "memory_used_bytes", True),
    ("gpu-utilization", "GPU utilization, of the busiest GPU", Unit.RATIO, "utilization_ratio", True),
    ("host-memory", "Memory of the script's processes", Unit.BYTES, "process.resident_bytes", True),
    ("step-time", "Step time", Unit.SECONDS, "step_seconds", True),
    ("input-wait", "Waiting for data", Unit.RATIO, "input_wait_ratio", True),
    ("speed", "Samples per second", Unit.NUMBER, "examples_per_second", True),
    ("loss", "Loss", Unit.NUMBER, "training.recent_loss", False),
)


def as_page(recordings: Sequence[Recording]) -> str:
    """Return a page that compares the runs."""
    names = _names(recordings)
    end = max((each.end - each.begin for each in recordings), default=1.0)
    line, width = TimeLine(0.0, end, is_elapsed=True), max(end / INTERVALS, 1.0)
    times = tuple(round(place * width, 2) for place in range(int(end / width) + 1))
    drawn = list(_charts(recordings, names, len(times), width))
    body = [f"<main>{''.join(_body(recordings, names, drawn, times, line))}</main>"]
    scripts = []
    if drawn:
        data = {**charts.as_data(drawn, times, line), "offset": 0, "going_on": False}
        body.append(f'<script type="application/json" id="data">{as_inline_json(data)}</script>')
        scripts = [vendored("uPlot.iife.min.js"), own("page.js")]
    return document("oomph: runs compared", body, vendored("uPlot.min.css") + own("page.css"), scripts)


def _names(recordings: Sequence[Recording]) -> list[str]:
    """Name each run after its directory, with its number if two have the same name."""
    plain = [each.path.resolve().name for each in recordings]
    return [f"{name} ({place})" if plain.count(name) > 1 else name for place, name in enumerate(plain, 1)]


def _body(
    recordings: Sequence[Recording],
    names: Sequence[str],
    drawn: Sequence[Chart],
    times: Sequence[float],
    line: TimeLine,
) -> Iterator[str]:
    yield f"<h1>{counted(len(recordings), 'run')} side by side</h1>\n"
    rows = ([head, *(tell(each) for each in recordings)] for head, tell in _ROWS)
    yield table(("", *names), [row for row in rows if any(row[1:])])
    if drawn:
        yield "<h2>Over time</h2>\n"
        yield f'<p class="soft">{safe("From the beginning of each run.")}</p>\n'
        yield from figures(drawn, times, line)


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


_ROWS: tuple[tuple[str, Callable[[Recording], str]], ...] = (
    ("script", lambda each: each.command),
    ("outcome", lambda each: each.outcome),
    ("result", lambda each: meaning(each.summary.exactness, each.summary.steps_repeated, each.summary.reasons)),
    ("duration", lambda each: as_duration(each.end - each.begin)),
    ("steps", lambda each: f"{each.summary.steps:,}" if each.summary.steps else ""),
    ("steps repeated", lambda each: f"{each.summary.steps_repeated:,}" if each.summary.restarts else ""),
    ("attempts", lambda each: str(each.summary.attempts)),
    ("faults", lambda each: ", ".join(f"{name} {count}×" for name, count in each.summary.faults.items())),
    ("micro-batch", lambda each: "" if each.summary.micro_batch is None else f"{each.summary.micro_batch:,}"),
    ("time lost", lambda each: _seconds(each.summary)),
    ("step time, mean", _mean("step_seconds", Unit.SECONDS)),
    ("waiting for data, mean", _mean("input_wait_ratio", Unit.RATIO)),
    ("peak device memory", lambda each: _size(each.summary.device_peak_bytes)),
    ("peak host memory", lambda each: _size(each.summary.host_peak_bytes)),
)


def _charts(recordings: Sequence[Recording], names: Sequence[str], count: int, width: float) -> Iterator[Chart]:
    for key, title, unit, metric, from_zero in _CHARTS:
        curves = tuple(
            charts.PlottedCurve(
                name, _on_grid(recording, values, count, width), mean=recording.curves.means.get(metric)
            )
            for name, recording in zip(names, recordings, strict=True)
            for values in (_highest(recording.curves, metric),)
            if any(value is not None for value in values)
        )
        if curves:
            yield Chart(key, title, unit, curves, from_zero=from_zero)


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
