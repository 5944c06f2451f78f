"""Renders a plan as one self-contained HTML page with charts. It loads no other resources and runs no scripts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from oomph.page.axis import Axis, Tick, Unit, amounts
from oomph.page.chart import WIDTH, ChartCanvas, band, beside, drawn, limit, line, spot
from oomph.page.document import document, table
from oomph.planning.plan import Device, Fitting, Interval, MemoryMoment, Plan, PlannedReplicas
from oomph.planning.report import as_text
from oomph.terminal.amounts import in_three_digits

_HEIGHT = 320
_MOST_BATCH_LABELS = 8


def against_batch(curve: Sequence[tuple[int, Interval]], device: Device | None) -> str:
    """Draw the peak against the batch size, on a logarithmic axis, with its bounds and the device's memory."""
    limits = () if device is None else (device.usable,)
    highest = max(*(peak.high for _, peak in curve), *limits, 1)
    canvas = ChartCanvas(_batches([batch for batch, _ in curve]), amounts(0, highest, Unit.BYTES), WIDTH, _HEIGHT)
    places = [(math.log2(batch), peak) for batch, peak in curve]
    parts = [
        band(canvas, [(x, peak.high) for x, peak in places], [(x, peak.low) for x, peak in places]),
        line(canvas, ((x, peak.expected) for x, peak in places)),
        *(_limit(canvas, device) if device is not None else ()),
        *(_spot(canvas, batch, peak) for batch, peak in curve),
    ]
    return drawn(canvas, "peak memory against batch size", parts)


def through_one_step(timeline: Sequence[MemoryMoment], device: Device | None) -> str:
    """Draw the memory in use after each operation of one step, with the peak marked."""
    highest = max(range(len(timeline)), key=lambda number: timeline[number].size)
    peak, usable = timeline[highest], 0 if device is None else device.usable
    shown = usable if usable <= 2 * peak.size else 0  # a distant limit would flatten the curve
    ends = (Tick(0, ""), Tick(max(len(timeline) - 1, 1), ""))
    canvas = ChartCanvas(Axis(0, ends[1].value, ends), amounts(0, max(peak.size, shown, 1), Unit.BYTES), WIDTH, _HEIGHT)
    points = [(float(number), float(moment.size)) for number, moment in enumerate(timeline)]
    told = f"peak: {in_three_digits(peak.size)}, {peak.operation}"
    parts = [
        band(canvas, points, [(x, 0.0) for x, _ in points]),
        line(canvas, points),
        *(_limit(canvas, device) if device is not None and shown else ()),
        *(
            spot(canvas, point, f"{in_three_digits(moment.size)}, {moment.operation}", "moment")
            for point, moment in zip(points, timeline, strict=True)
        ),
        spot(canvas, points[highest], told, "peak", 5),
        beside(canvas, points[highest], told, "of-peak"),
        f'<text x="{canvas.left}" y="{_HEIGHT - 9}">first operation</text>',
        f'<text x="{canvas.right}" y="{_HEIGHT - 9}" text-anchor="end">last operation</text>',
    ]
    return drawn(canvas, "memory through one step", parts)


def _batches(batches: Sequence[int]) -> Axis:
    """Return a logarithmic axis, on which every so many of the batch sizes are labelled, and the last one always."""
    every = math.ceil(len(batches) / _MOST_BATCH_LABELS)
    labelled = [batch for number, batch in enumerate(batches) if (len(batches) - 1 - number) % every == 0]
    ticks = tuple(Tick(math.log2(batch), f"{batch:,}") for batch in labelled)
    return Axis(math.log2(batches[0]), math.log2(batches[-1]), ticks)


def _limit(canvas: ChartCanvas, device: Device) -> Iterator[str]:
    return limit(canvas, device.usable, f"{device.name}: {in_three_digits(device.usable)} for TensorFlow")


def _spot(canvas: ChartCanvas, batch: int, peak: Interval) -> str:
    low, high = in_three_digits(peak.low), in_three_digits(peak.high)
    told = f"batch {batch:,}: {in_three_digits(peak.expected)} ({low} to {high})"
    return spot(canvas, (math.log2(batch), peak.expected), told)


def as_page(plan: Plan, words: Sequence[str]) -> str:
    """Return the plan as an HTML page; `words` are the script and its arguments, for the command to copy."""
    return document(f"Memory of {plan.place}", _body(plan, words))


_FITS = {Fitting.YES: "yes", Fitting.NO: "no", Fitting.UNKNOWN: "?"}


def _body(plan: Plan, words: Sequence[str]) -> Iterator[str]:
    yield f"<h1>{escape(plan.place)}: {escape(plan.subject)}</h1>"
    shares = PlannedReplicas(plan.replicas).words(plan.batch)
    if shares:
        yield f"<p>{escape(shares)}</p>"
    curve = sorted({**dict(plan.curve), **{each.batch: each.peak for each in plan.estimates}}.items())
    if curve:
        yield "<h2>Peak memory against batch size: expected, with the interval</h2>"
        yield against_batch(curve, plan.device)
        fits = {estimate.batch: _FITS[estimate.fits] for estimate in plan.estimates}
        rows = ((f"{batch:,}", *_bounds(peak), fits.get(batch, "")) for batch, peak in curve)
        yield table(("batch", "expected", "at least", "at most", "fits"), rows)
    if plan.timeline:
        first = f" at batch {plan.estimates[-1].batch:,}" if plan.estimates else ""
        yield f"<h2>Memory through one step{first}</h2>"
        yield through_one_step(plan.timeline, plan.device)
        yield from _beside_tensors(plan)
    if plan.items:
        yield "<h2>What memory is used for at the peak</h2>"
        uses = ((item.name, *_bounds(item.size), item.basis) for item in plan.items)
        yield table(("", "expected", "at least", "at most", "how it is known"), uses)
    if plan.layers:
        yield "<h2>Activations at the peak, by layer</h2>"
        yield table(("layer", "size"), ((layer.name, in_three_digits(layer.size)) for layer in plan.layers))
    yield "<h2>In words</h2>"
    yield f"<pre>{escape(chr(10).join(as_text(plan, words)))}</pre>"


def _beside_tensors(plan: Plan) -> Iterator[str]:
    """Say why the peak expected of a batch is above the highest point of its step."""
    highest = max(moment.size for moment in plan.timeline)
    expected = plan.estimates[-1].peak.expected if plan.estimates else 0
    if expected > highest:
        more = f"The expected peak, {in_three_digits(expected)}, is {in_three_digits(expected - highest)} higher"
        yield f"<p>{escape(more)}: it also counts what lies beside the tensors of a step, which is listed below.</p>"


def _bounds(size: Interval) -> tuple[str, str, str]:
    return in_three_digits(size.expected), in_three_digits(size.low), in_three_digits(size.high)
