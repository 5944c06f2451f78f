"""Renders a plan as one self-contained HTML page with charts. It loads no other resources and runs no scripts. Pure.

The charts are SVG and use the colours of the page's style.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from oomph.planning.plan import Device, Interval, MemoryMoment, Plan, PlannedReplicas
from oomph.planning.report import as_text
from oomph.terminal.amounts import in_three_digits

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 16, 16, 36
_MOST_BATCH_LABELS = 8
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a19; --soft: #5f5e58; --page: #fcfcfb; --grid: #e3e2dc;
  --line: #2a78d6; --limit: #c0352b; }
@media (prefers-color-scheme: dark) { :root { --ink: #f2f1ec; --soft: #b3b1a7; --page: #1a1a19; --grid: #3a3935;
  --line: #5b9bea; --limit: #ff7a6e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 760px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 2rem 0 .5rem; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--soft); }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1.5rem .2rem 0; }
th { color: var(--soft); font-weight: normal; } td.size { font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; }
.grid { stroke: var(--grid); } .band { fill: var(--line); opacity: .18; }
.line { fill: none; stroke: var(--line); stroke-width: 2; } .spot { fill: var(--line); }
.moment { fill: transparent; } .peak { fill: var(--limit); }
.limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 6 4; } svg .of-limit { fill: var(--limit); }
"""


@dataclass(frozen=True)
class _Frame:
    """Maps values to coordinates in the picture: x from `left` to `right`, y from 0 to `top`."""

    left: float
    right: float
    top: float

    def x(self, value: float) -> float:
        share = (value - self.left) / ((self.right - self.left) or 1.0)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / self.top * (_HEIGHT - _TOP - _BOTTOM), 1)


def against_batch(curve: Sequence[tuple[int, Interval]], device: Device | None) -> str:
    """Draw the peak against the batch size, on a logarithmic axis, with its bounds and the device's memory."""
    limits = () if device is None else (device.usable,)
    frame = _Frame(
        math.log2(curve[0][0]), math.log2(curve[-1][0]), _round_up(max(*(peak.high for _, peak in curve), *limits, 1))
    )
    spots = [(frame.x(math.log2(batch)), batch, peak) for batch, peak in curve]
    band = [(x, frame.y(peak.high)) for x, _, peak in spots] + [(x, frame.y(peak.low)) for x, _, peak in spots[::-1]]
    parts = [
        *_sizes_axis(frame),
        *_batches_axis([(x, batch) for x, batch, _ in spots]),
        f'<polygon class="band" points="{_points(band)}"/>',
        f'<polyline class="line" points="{_points([(x, frame.y(peak.expected)) for x, _, peak in spots])}"/>',
        *(_limit(frame, device) if device is not None else ()),
        *(_spot(x, frame, batch, peak) for x, batch, peak in spots),
    ]
    return _svg("peak memory against batch size", parts)


def through_one_step(timeline: Sequence[MemoryMoment], device: Device | None) -> str:
    """Draw the memory in use after each operation of one step, with the peak marked."""
    highest = max(range(len(timeline)), key=lambda number: timeline[number].size)
    usable = 0 if device is None else device.usable
    shown = usable if usable <= 2 * timeline[highest].size else 0  # a distant limit would flatten the curve
    frame = _Frame(0, max(len(timeline) - 1, 1), _round_up(max(timeline[highest].size, shown, 1)))
    spots = [(frame.x(number), frame.y(moment.size)) for number, moment in enumerate(timeline)]
    ground = frame.y(0)
    peak = timeline[highest]
    parts = [
        *_sizes_axis(frame),
        f'<polygon class="band" points="{_points([(spots[0][0], ground), *spots, (spots[-1][0], ground)])}"/>',
        f'<polyline class="line" points="{_points(spots)}"/>',
        *(_limit(frame, device) if device is not None and shown else ()),
        *(_moment(x, y, moment) for (x, y), moment in zip(spots, timeline, strict=True)),
        f'<circle class="peak" cx="{spots[highest][0]}" cy="{spots[highest][1]}" r="5">'
        f"<title>peak: {in_three_digits(peak.size)}, {escape(peak.operation)}</title></circle>",
        f'<text x="{_LEFT}" y="{_HEIGHT - 10}">first operation</text>',
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 10}" text-anchor="end">last operation</text>',
    ]
    return _svg("memory through one step", parts)


def _svg(title: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">\n{body}\n</svg>'


def _sizes_axis(frame: _Frame) -> Iterator[str]:
    for number in range(5):
        size = frame.top * number / 4
        y = frame.y(size)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        mark = in_three_digits(size, frame.top) if size else "0"
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{mark}</text>'


def _batches_axis(batches: Sequence[tuple[float, int]]) -> Iterator[str]:
    every = math.ceil(len(batches) / _MOST_BATCH_LABELS)
    for number, (x, batch) in enumerate(batches):
        if (len(batches) - 1 - number) % every == 0:
            yield f'<text x="{x}" y="{_HEIGHT - 14}" text-anchor="middle">{batch:,}</text>'


def _limit(frame: _Frame, device: Device) -> Iterator[str]:
    y = frame.y(device.usable)
    what = f"{device.name}: {in_three_digits(device.usable)} for TensorFlow"
    yield f'<line class="limit" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
    yield f'<text class="of-limit" x="{_LEFT + 6}" y="{y - 5 if y > _TOP + 14 else y + 15}">{escape(what)}</text>'


def _spot(x: float, frame: _Frame, batch: int, peak: Interval) -> str:
    low, high = in_three_digits(peak.low), in_three_digits(peak.high)
    what = f"batch {batch:,}: {in_three_digits(peak.expected)} ({low} to {high})"
    return f'<circle class="spot" cx="{x}" cy="{frame.y(peak.expected)}" r="4"><title>{what}</title></circle>'


def _moment(x: float, y: float, moment: MemoryMoment) -> str:
    what = f"{in_three_digits(moment.size)}, {escape(moment.operation)}"
    return f'<circle class="moment" cx="{x}" cy="{y}" r="4"><title>{what}</title></circle>'


def _points(spots: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in spots)


def _round_up(size: float) -> float:
    """Round a number of bytes up to an amount in KiB, MiB or GiB that divides easily by four."""
    unit = 1024.0 ** int(math.log(max(size, 1), 1024))
    figure = size / unit * 1.05
    step: float = 10.0 ** math.floor(math.log10(figure)) / 2
    return math.ceil(figure / step) * step * unit


def as_page(plan: Plan, words: Sequence[str]) -> str:
    """Return the plan as an HTML page; `words` are the script and its arguments, for the command to copy."""
    body = "\n".join(_body(plan, words))
    title = escape(f"Memory of {plan.place}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    start = f'<!doctype html>\n<html lang="en">\n<head>{head}\n<style>{_STYLE}</style></head>'
    return f"{start}\n<body>\n{body}\n</body>\n</html>\n"


def _body(plan: Plan, words: Sequence[str]) -> Iterator[str]:
    yield f"<h1>{escape(plan.place)}: {escape(plan.subject)}</h1>"
    shares = PlannedReplicas(plan.replicas).words(plan.batch)
    if shares:
        yield f"<p>{escape(shares)}</p>"
    curve = sorted({**dict(plan.curve), **{each.batch: each.peak for each in plan.estimates}}.items())
    if curve:
        yield "<h2>Peak memory against batch size: expected, with the interval</h2>"
        yield against_batch(curve, plan.device)
        yield _table(
            ("batch", "expected", "at least", "at most"), ((f"{batch:,}", *_bounds(peak)) for batch, peak in curve)
        )
    if plan.timeline:
        first = f" at batch {plan.estimates[-1].batch:,}" if plan.estimates else ""
        yield f"<h2>Memory through one step{first}</h2>"
        yield through_one_step(plan.timeline, plan.device)
    if plan.items:
        yield "<h2>What memory is used for at the peak</h2>"
        rows = ((item.name, *_bounds(item.size), item.basis) for item in plan.items)
        yield _table(("", "expected", "at least", "at most", "how it is known"), rows)
    if plan.layers:
        yield "<h2>Activations at the peak, by layer</h2>"
        yield _table(("layer", "size"), ((layer.name, in_three_digits(layer.size)) for layer in plan.layers))
    yield "<h2>In words</h2>"
    yield f"<pre>{escape(chr(10).join(as_text(plan, words)))}</pre>"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = ("".join(f'<td class="size">{escape(cell)}</td>' for cell in row) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>\n<tr>{heads}</tr>\n{body}\n</table>"


def _bounds(size: Interval) -> tuple[str, str, str]:
    return in_three_digits(size.expected), in_three_digits(size.low), in_three_digits(size.high)
