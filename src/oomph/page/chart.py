"""Draws charts as SVG, in the colours of the page's style. Pure.

A chart is a `ChartCanvas` with two axes, on which the functions here draw lines, bands, limits and marks. Its margins
fit its labels, so that nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oomph.page.axis import Axis
from oomph.page.document import safe

WIDTH, HEIGHT = 720, 260
_RIGHT, _TOP, _BOTTOM = 14, 14, 28
_CHARACTER = 7.0
"""The width of a character of a label, in pixels: 12 px in a sans-serif font, rounded up."""
_LEAST_LEFT = 72
_LINE_HEIGHT = 15

Point = tuple[float, float]
"""A point of a series: its values on the two axes."""
COLOURS = 8
"""The number of colours of series in the page's style. Further series use them again."""


@dataclass(frozen=True)
class ChartCanvas:
    """The area of a chart, which maps values to pixels."""

    x: Axis
    y: Axis
    width: int = WIDTH
    height: int = HEIGHT
    least_left: float = _LEAST_LEFT
    """The smallest x coordinate at which the area begins, so that several charts can begin at the same one."""

    @property
    def left(self) -> float:
        """The x coordinate at which the area begins, right of the longest label."""
        longest = max((len(tick.label) for tick in self.y.ticks), default=0)
        return max(longest * _CHARACTER + 12, self.least_left)

    @property
    def right(self) -> float:
        """The x coordinate at which the area ends, with room for half of the last label."""
        half = len(self.x.ticks[-1].label) * _CHARACTER / 2 if self.x.ticks else 0.0
        return self.width - max(_RIGHT, half)

    @property
    def ground(self) -> float:
        """The y coordinate at which the area ends."""
        return float(self.height - _BOTTOM)

    def at(self, x: float, y: float) -> Point:
        """Return the pixel of a value."""
        across, up = self.x.share(x), self.y.share(y)
        return (
            round(self.left + across * (self.right - self.left), 1),
            round(self.ground - up * (self.ground - _TOP), 1),
        )


def drawn(canvas: ChartCanvas, title: str, parts: Iterable[str]) -> str:
    """Return the SVG of a chart: its axes and the given parts. `title` is read out by screen readers."""
    body = "\n".join((*_axes(canvas), *parts))
    box = f'viewBox="0 0 {canvas.width} {canvas.height}"'
    return f'<svg {box} role="img" aria-label="{safe(title)}">\n{body}\n</svg>'


def _axes(canvas: ChartCanvas) -> Iterator[str]:
    for tick in canvas.y.ticks:
        _, y = canvas.at(canvas.x.low, tick.value)
        yield f'<line class="grid" x1="{canvas.left}" x2="{canvas.right}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{canvas.left - 6}" y="{y + 4}" text-anchor="end">{safe(tick.label)}</text>'
    for tick in canvas.x.ticks:
        x, _ = canvas.at(tick.value, canvas.y.low)
        yield f'<text x="{x}" y="{canvas.height - 9}" text-anchor="middle">{safe(tick.label)}</text>'


def line(canvas: ChartCanvas, points: Iterable[tuple[float, float | None]], colour: int | None = 0) -> str:
    """Draw a line through the points, dashed in the colour of limits if `colour` is None. None in a point is a gap."""
    pieces, piece = list[str](), list[Point]()
    for x, y in points:
        if y is not None:
            piece.append(canvas.at(x, y))
        elif piece:
            pieces.append(_piece(piece))
            piece = []
    if piece:
        pieces.append(_piece(piece))
    kind = "line limit" if colour is None else f"line s{colour % COLOURS}"
    return f'<path class="{kind}" d="{"".join(pieces)}"/>' if pieces else ""


def _piece(points: Sequence[Point]) -> str:
    """Return the path of one unbroken piece; a single point becomes a dot, since round caps show it."""
    first, *rest = points
    return f"M{_pair(first)}L{' '.join(map(_pair, rest or [first]))}"


def _pair(point: Point) -> str:
    return f"{point[0]:g},{point[1]:g}"


def band(canvas: ChartCanvas, upper: Sequence[Point], lower: Sequence[Point]) -> str:
    """Fill the area between two lines."""
    corners = " ".join(_pair(canvas.at(*point)) for point in (*upper, *reversed(lower)))
    return f'<polygon class="band" points="{corners}"/>'


def limit(canvas: ChartCanvas, value: float, text: str) -> Iterator[str]:
    """Draw a dashed line across the chart, with its name above it, or below it if there is no room."""
    x, y = canvas.at(canvas.x.low, value)
    yield f'<line class="limit" x1="{x}" x2="{canvas.right}" y1="{y}" y2="{y}"/>'
    beside = y - 5 if y > _TOP + _LINE_HEIGHT else y + _LINE_HEIGHT
    yield f'<text class="of-limit" x="{x + 6}" y="{beside}">{safe(text)}</text>'


def mark(canvas: ChartCanvas, at: float, title: str, kind: str = "") -> str:
    """Draw a vertical line at an event, whose title appears on hovering."""
    x, y = canvas.at(at, canvas.y.high)
    moment = f'<line class="mark {kind}" x1="{x}" x2="{x}" y1="{y}" y2="{canvas.ground}">'
    return f"{moment}<title>{safe(title)}</title></line>"


def span(canvas: ChartCanvas, begin: float, end: float, title: str, kind: str = "") -> str:
    """Shade the time between two events, whose title appears on hovering."""
    x, y = canvas.at(max(begin, canvas.x.low), canvas.y.high)
    until, _ = canvas.at(min(end, canvas.x.high), canvas.y.high)
    area = f'<rect class="span {kind}" x="{x}" y="{y}" width="{max(until - x, 1):g}" height="{canvas.ground - y:g}">'
    return f"{area}<title>{safe(title)}</title></rect>"


def spot(canvas: ChartCanvas, point: Point, title: str, kind: str = "spot", radius: int = 4) -> str:
    """Draw a point, whose title appears on hovering."""
    x, y = canvas.at(*point)
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"><title>{safe(title)}</title></circle>'


def beside(canvas: ChartCanvas, point: Point, text: str, kind: str = "") -> str:
    """Write a text above a point, shifted as far as needed to stay within the chart."""
    x, y = canvas.at(*point)
    half = len(text) * _CHARACTER / 2
    x = min(max(x, canvas.left + half), canvas.right - half)
    y = y - 9 if y > _TOP + _LINE_HEIGHT else y + _LINE_HEIGHT + 6
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">{safe(text)}</text>'
