"""Turns curves into the charts of a report: which curves share one, their units and limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from oomph.page import chart as drawing
from oomph.page.axis import Axis, Unit, amounts, clock, elapsed, label
from oomph.report.curves import Column, Curves
from oomph.report.processes import OTHERS, SCRIPT, TOGETHER, key_of
from oomph.run.report.found import Found

_SVG_POINTS = 480
"""The most points of a curve in the picture for paper and for browsers without scripts."""
_DIGITS = 5
"""The significant digits of a value in the page."""


@dataclass(frozen=True)
class PlottedCurve:
    """One line of a chart."""

    name: str
    values: Column
    is_limit: bool = False
    """True if the others must stay below it."""
    mean: float | None = None
    """The true mean, or None if that of the values is."""


@dataclass(frozen=True)
class Chart:
    """A chart over the time of the run."""

    key: str
    title: str
    unit: Unit
    curves: tuple[PlottedCurve, ...]
    note: str = ""
    from_zero: bool = True
    """True if the axis starts at 0, so that heights compare."""

    def axis(self) -> Axis:
        """Return the vertical axis."""
        values = [value for curve in self.curves for value in curve.values if value is not None]
        low = min(values, default=0.0)
        return amounts(min(low, 0.0) if self.from_zero else low, max(values, default=0.0), self.unit)


@dataclass(frozen=True)
class Marking:
    """Something that happened at a moment of the run, with a link to where the page tells of it."""

    at: float
    title: str
    anchor: str
    kind: str = ""
    """"" for a fault, "restart" for the start of an attempt."""
    colour: int | None = None
    """The number of the curve in whose colour it is drawn, or None for that of its kind."""
    label: str = ""
    """The text in its dot: the number of the incident."""


@dataclass(frozen=True)
class TimeLine:
    """The time that all charts of a run share, and what happened in it."""

    begin: float
    end: float
    markings: tuple[Marking, ...] = ()
    findings: tuple[Found, ...] = ()
    is_elapsed: bool = False
    """True if times count from the beginning of each of several runs; otherwise, they are Unix times."""

    @cached_property
    def axis(self) -> Axis:
        """The horizontal axis."""
        return elapsed(self.end) if self.is_elapsed else clock(self.begin, self.end)


class Margins(NamedTuple):
    """The margins beside the area of a chart as a picture, which is `drawing.WIDTH` wide."""

    left: float
    right: float

    @property
    def as_shares(self) -> tuple[float, float]:
        """The margins as shares of the width."""
        return self.left / drawing.WIDTH, self.right / drawing.WIDTH


def charts_of(curves: Curves) -> tuple[Chart, ...]:
    """Return the charts that have at least one curve, in the order of the page."""
    known = curves.columns
    every = (
        Chart("pool", "Memory held by TensorFlow", Unit.BYTES, _named(known, _POOL), _POOL_NOTE),
        Chart("gpu-memory", "GPU memory", Unit.BYTES, _of_gpus(curves, "memory_used_bytes", "memory_total_bytes")),
        Chart("gpu-utilization", "GPU utilization", Unit.RATIO, _of_gpus(curves, "utilization_ratio")),
        Chart(
            "gpu-temperature",
            "GPU temperature",
            Unit.CELSIUS,
            _of_gpus(curves, "temperature_celsius", "temperature_slowdown_celsius"),
            from_zero=False,
        ),
        Chart("host-memory", "Memory of the machine", Unit.BYTES, _named(known, _HOST)),
        Chart("processes", "Memory of the script's processes", Unit.BYTES, _processes(curves), _processes_note(curves)),
        Chart("step-time", "Step time", Unit.SECONDS, _rate(curves, "step_seconds", "time of a step")),
        Chart("input-wait", "Waiting for data", Unit.RATIO, _rate(curves, "input_wait_ratio", "share of the step")),
        Chart("speed", "Samples per second", Unit.NUMBER, _rate(curves, "examples_per_second", "during steps")),
        Chart("loss", "Loss", Unit.NUMBER, _loss(known), from_zero=False),
    )
    return tuple(each for each in every if any(not curve.is_limit for curve in each.curves))


_POOL = {
    "training.allocator_in_use_bytes": "in use",
    "training.allocator_peak_bytes": "peak",
    "training.allocator_limit_bytes": "limit",
}
_POOL_NOTE = (
    "TensorFlow's pool on the device. In use: by tensors at that moment. Peak: the most so far in this process, or"
    " since the script reset it. Limit: all that the pool may hold."
)
_HOST = {
    TOGETHER: "the script's processes",
    "host.memory_used_bytes": "all processes",
    "host.memory_total_bytes": "limit",
}
_LIMIT = "limit"
_PROCESSES_NOTE = (
    "What processes share is divided among them, so that their curves add up. Children are the processes that the"
    " script started, and their own, added up by name."
)


def _processes(curves: Curves) -> tuple[PlottedCurve, ...]:
    """Return the memory of the script, of its largest children and of the rest; without children, of the script."""
    if SCRIPT not in curves.columns:
        return _named(curves.columns, {TOGETHER: "the script"})
    children = {key_of(name): f"children: {name}" for name in curves.children}
    return _named(
        curves.columns,
        {SCRIPT: "the script itself", **children, OTHERS: "other children", TOGETHER: "all of them"},
    )


def _processes_note(curves: Curves) -> str:
    return _PROCESSES_NOTE if curves.children else ""


def _named(known: Mapping[str, Column], names: Mapping[str, str]) -> tuple[PlottedCurve, ...]:
    there = ((key, name) for key, name in names.items() if _has_values(known, key))
    return tuple(PlottedCurve(name, known[key], name == _LIMIT) for key, name in there)


def _rate(curves: Curves, key: str, name: str) -> tuple[PlottedCurve, ...]:
    return tuple(replace(curve, mean=curves.means.get(key)) for curve in _named(curves.columns, {key: name}))


def _loss(known: Mapping[str, Column]) -> tuple[PlottedCurve, ...]:
    """Return the loss of the latest steps if it was measured, or the mean that Keras shows."""
    recent = _named(known, {"training.recent_loss": "over the latest steps"})
    return recent or _named(known, {"training.loss": "as Keras shows it"})


def _of_gpus(curves: Curves, key: str, limit: str = "") -> tuple[PlottedCurve, ...]:
    """Return a curve for each GPU, and one for each distinct limit of theirs."""
    is_mixed = len(set(curves.gpus.values())) > 1
    own = [
        PlottedCurve(f"GPU {index}{f' ({name})' if is_mixed else ''}", curves.columns[f"gpu{index}.{key}"])
        for index, name in curves.gpus.items()
        if _has_values(curves.columns, f"gpu{index}.{key}")
    ]
    limits: dict[float, PlottedCurve] = {}
    for index in curves.gpus if limit else ():
        values = curves.columns.get(f"gpu{index}.{limit}", ())
        highest = max((value for value in values if value is not None), default=None)
        if highest is not None:
            limits.setdefault(highest, PlottedCurve(_LIMIT, tuple(highest for _ in values), is_limit=True))
    return (*own, *limits.values())


def _has_values(known: Mapping[str, Column], key: str) -> bool:
    return any(value is not None for value in known.get(key, ()))


# -- as data for the page's script ------------------------------------------------------------------------------------


def as_data(charts: Sequence[Chart], times: Sequence[float], line: TimeLine) -> dict[str, object]:
    """Return the charts as JSON for the page's script: one list of times, and for each curve its values."""
    return {
        "times": times,
        "elapsed": line.is_elapsed,
        "charts": [
            {
                "key": each.key,
                "unit": each.unit.value,
                "zero": each.from_zero,
                "curves": [
                    {"name": curve.name, "limit": curve.is_limit, "values": [_rounded(v) for v in curve.values]}
                    for curve in each.curves
                ],
            }
            for each in charts
        ],
        "begin": line.begin,
        "end": line.end,
        "marks": [
            {
                "at": each.at,
                "title": each.title,
                "to": each.anchor,
                "kind": each.kind,
                "colour": each.colour,
                "label": each.label,
            }
            for each in line.markings
        ],
        "spans": [
            {"begin": each.begin, "end": each.until(line.end), "title": each.message, "kind": each.severity}
            for each in line.findings
        ],
    }


def _rounded(value: float | None) -> float | None:
    if value is None:
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short == int(short) else short


# -- as a picture, for paper and for browsers without scripts ---------------------------------------------------------


def margins_of(charts: Sequence[Chart], line: TimeLine) -> Margins:
    """Return margins in which the labels of all these charts fit, so that their times are below each other."""
    canvases = [drawing.ChartCanvas(line.axis, chart.axis()) for chart in charts]
    canvases = canvases or [drawing.ChartCanvas(line.axis, amounts(0.0, 1.0, Unit.NUMBER))]
    return Margins(max(canvas.left for canvas in canvases), drawing.WIDTH - canvases[0].right)


def as_picture(chart: Chart, times: Sequence[float], line: TimeLine, margins: Margins) -> str:
    """Return the chart as SVG."""
    canvas = drawing.ChartCanvas(line.axis, chart.axis(), least_left=margins.left)
    return drawing.drawn(canvas, f"{chart.title}: {_in_words(chart)}", _parts(canvas, chart, times, line))


def _parts(canvas: drawing.ChartCanvas, chart: Chart, times: Sequence[float], line: TimeLine) -> Iterator[str]:
    for found in line.findings:
        yield drawing.span(canvas, found.begin, found.until(line.end), found.message, found.severity)
    for marking in line.markings:
        kind = marking.kind if marking.colour is None else f"s{marking.colour % drawing.COLOURS}"
        yield drawing.mark(canvas, marking.at, marking.title, kind)
    for number, curve in enumerate(chart.curves):
        yield drawing.line(canvas, _coarse(times, curve.values), None if curve.is_limit else number)


def _coarse(times: Sequence[float], values: Column) -> Iterator[tuple[float, float | None]]:
    """Yield at most about `_SVG_POINTS` points: of every few, the smallest and largest; none within a level line."""
    group = max(1, -(-2 * len(times) // _SVG_POINTS))
    return _without_level(_extremes(times, values, group))


def _extremes(times: Sequence[float], values: Column, group: int) -> Iterator[tuple[float, float | None]]:
    for first in range(0, len(times), group):
        few = zip(values[first : first + group], times[first : first + group], strict=True)
        some = [(value, at) for value, at in few if value is not None]
        if not some:
            yield times[first], None
            continue
        pair = {min(some), max(some)}
        yield from ((at, value) for at, value in sorted((at, value) for value, at in pair))


def _without_level(points: Iterator[tuple[float, float | None]]) -> Iterator[tuple[float, float | None]]:
    """Leave out points between two others of the same value."""
    kept: list[tuple[float, float | None]] = []
    for point in points:
        if len(kept) == 2 and kept[0][1] == kept[1][1] == point[1]:
            kept[1] = point
            continue
        if len(kept) == 2:
            yield kept.pop(0)
        kept.append(point)
    yield from kept


def _in_words(chart: Chart) -> str:
    """Say in one sentence what the chart shows, for whoever cannot see it."""
    told = []
    for curve in chart.curves:
        known = [value for value in curve.values if value is not None]
        if known and curve.is_limit:
            told.append(f"limit {label(max(known), chart.unit)}")
        elif known:
            told.append(f"{curve.name} from {label(min(known), chart.unit)} to {label(max(known), chart.unit)}")
    return ", ".join(told)


def as_rows(chart: Chart) -> Iterator[tuple[str, ...]]:
    """Yield a row for each curve: its name, smallest, mean, largest and last value."""
    for curve in chart.curves:
        known = [value for value in curve.values if value is not None]
        if known:
            mean = sum(known) / len(known) if curve.mean is None else curve.mean
            figures = (min(known), mean, max(known), known[-1])
            yield curve.name, *(label(value, chart.unit) for value in figures)
