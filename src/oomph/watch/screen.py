"""The screen of the live view: lays a View out as lines of rich text that fit the terminal. Pure.

The screen has as much detail as its height allows. What is cut off on a small one is counted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import wrapped
from oomph.watch import wording
from oomph.watch.charts import BLOCKS, Marks
from oomph.watch.gpu_rows import as_grid, as_table, in_a_row, title_of
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.keys import ViewChoice
from oomph.watch.layout import ScreenPart, Wish, cut, cut_to, heights_of, part_of, rows_of_parts
from oomph.watch.run_rows import STYLES, in_words, list_of, progress_rows
from oomph.watch.strip_rows import Canvas, axis_row, canvas_of, rows_of
from oomph.watch.strips import Strip, strips_of_gpu, strips_of_host, strips_of_job
from oomph.watch.view import GpuView, View
from oomph.watch.worker_rows import least_rows, worker_rows

LEAST_WIDTH, LEAST_HEIGHT = 40, 10
_HANG = " " * 10
"""The indentation of an incident's continuation lines, as wide as its time."""
_MOST_NAMED = 2
"""The number of processes that are named behind their GPU."""


def lines_of(view: View, choice: ViewChoice, width: int, height: int, marks: Marks = BLOCKS) -> list[Text]:
    """Return the lines of the screen: at most `height` of them, each no wider than `width`."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        lines = [Text(f"{width}×{height} is too small:"), Text(f"{LEAST_WIDTH}×{LEAST_HEIGHT} needed"), Text("q quit")]
        return [_fitted(line, width) for line in lines[:height]]
    room = height - 2
    rows = rows_of_parts(_most_detailed(_Look(view, choice, width, height, marks), room), room)
    rows += [Text()] * (room - len(rows))
    return [_fitted(line, width) for line in [_header(view, choice, width), *rows, _footer(view, choice)]]


class _Look(NamedTuple):
    """The content to show, and its place."""

    view: View
    choice: ViewChoice
    width: int
    height: int
    marks: Marks

    @property
    def job(self) -> Job | None:
        """The chosen run."""
        return self.view.jobs[self.choice.place(self.view.jobs)] if self.view.jobs else None

    def canvas(self, sampled: float | None, height: int) -> Canvas:
        """Return the canvas for values of which the newest was sampled at this time."""
        until = self.view.until(sampled)
        end = "now" if until == self.view.time else wording.time_of_day(until)
        return canvas_of(self.width, height, until, end, self.marks)


class _Detail(NamedTuple):
    """The ways in which runs, machine and GPUs are shown."""

    run: bool
    """True for strips of the run, False for words. The same goes for `host`."""
    host: bool
    gpu: int
    """The number of strips for each GPU, or 0 for a row for each."""
    grid: bool = False
    """True if several GPUs share a row."""
    whole: bool = False
    """True if the most severe finding is shown whole even without strips, and not cut to one row."""


_DETAILS = (
    _Detail(True, True, 4),
    _Detail(True, True, 2),
    _Detail(True, True, 0),
    _Detail(True, False, 0),
    _Detail(False, False, 0, whole=True),
    _Detail(False, False, 0),
    _Detail(False, False, 0, grid=True, whole=True),
    _Detail(False, False, 0, grid=True),
)
"""The levels of detail, most detailed first."""


class _Rank(enum.IntEnum):
    """The order in which parts get rows if there are too few."""

    ALERTS = 0
    JOBS = 1
    RUN = 2
    WORKERS = 3
    GPUS = 4
    HOST = 5
    PROCESSES = 6
    PAST = 7


_REMEDY = 2
"""The rows in which a screen that has room for curves also shows the remedy of a finding."""
_WHOLE = 1000
"""The minimum of a part that is not cut: less detail is shown instead."""


def _most_detailed(look: _Look, room: int) -> list[ScreenPart]:
    """Return the parts in the most detail that fits, with curves that are as high as the rows that are left allow."""
    alerts, past = _told(look.view.alerts, look), _told(look.view.past, look)
    for detail in _DETAILS:
        parts = [draw(1) for draw in _parts(look, detail, alerts, past)]
        if sum(part.wish.least for part in parts) + (_REMEDY if detail.run and look.view.alerts else 0) <= room:
            break
    spare = room + 1 - sum(part.wish.rows + bool(part.wish.rows) for part in parts)
    heights = heights_of(spare, [part.strips for part in parts])
    return [
        draw(height) if height > 1 else part
        for draw, height, part in zip(_parts(look, detail, alerts, past), heights, parts, strict=True)
    ]


def _parts(look: _Look, detail: _Detail, alerts: _Told, past: _Told) -> list[Callable[[int], ScreenPart]]:
    """Return how to draw each part with strips of a given height, in the order of the screen."""
    problems = [f"{source}: {why}" for source, why in look.view.problems.items()]
    return [
        lambda _: _jobs(look),
        lambda height: _run(look, detail, height),
        lambda _: _workers(look),
        lambda height: _host(look, detail, height),
        lambda height: _gpus(look, detail, height),
        lambda _: part_of(_processes(look) if not detail.gpu else (), 5, _Rank.PROCESSES),
        lambda _: _incidents(alerts, 5, _Rank.ALERTS, detail.whole),
        lambda _: _incidents(past, 2, _Rank.PAST),
        lambda _: part_of([Text(shown_line(each), style="yellow") for each in problems], 1, _Rank.ALERTS),
    ]


def _jobs(look: _Look) -> ScreenPart:
    jobs, chosen = look.view.jobs, look.choice.place(look.view.jobs)
    return part_of(list_of(jobs, chosen, look.width, look.marks) if jobs else [_NO_RUN], 3, _Rank.JOBS, chosen)


_NO_RUN = Text("no oomph run in this folder", style="dim")


def _run(look: _Look, detail: _Detail, height: int) -> ScreenPart:
    """Return the chosen run."""
    job = look.job
    if job is None:
        return part_of((), 0, _Rank.RUN)
    rows = progress_rows(job, look.width, look.marks)
    strips = strips_of_job(job)
    if not detail.run or not strips:
        return part_of([*rows, *in_words(job, look.width)], _WHOLE, _Rank.RUN)
    canvas = look.canvas(job.sampled, height)
    return _charted([([*rows, *_axis(canvas)], strips)], canvas, _Rank.RUN)


def _workers(look: _Look) -> ScreenPart:
    """Return the workers of the chosen run, if there are several."""
    job = look.job
    if job is None or not job.workers:
        return part_of((), 0, _Rank.WORKERS)
    wish = Wish(1 + len(job.workers) + (job.straggler is not None), least_rows(job), _Rank.WORKERS)
    return ScreenPart(wish, lambda rows: worker_rows(job, look.width, look.marks, rows))


def _host(look: _Look, detail: _Detail, height: int) -> ScreenPart:
    """Return the load of the machine."""
    if not detail.host:
        return part_of([Text(wording.host(look.view.host))] if look.view.host else (), 1, _Rank.HOST)
    canvas, strips = look.canvas(look.view.sampled, height), strips_of_host(look.view)
    return _charted(
        [(_axis(canvas) if strips and not _is_below_axis(look, canvas) else [], strips)], canvas, _Rank.HOST
    )


def _axis(canvas: Canvas) -> list[Text]:
    return [axis_row(canvas)] if canvas.curve else []


def _is_below_axis(look: _Look, canvas: Canvas) -> bool:
    """True if the time axis above the strips of the run is also that of the machine."""
    job = look.job
    return job is not None and bool(strips_of_job(job)) and look.canvas(job.sampled, canvas.height).end == canvas.end


def _gpus(look: _Look, detail: _Detail, height: int) -> ScreenPart:
    gpus, canvas = look.choice.sorted(look.view.gpus), look.canvas(look.view.sampled, height)
    if not gpus:
        return part_of([Text("no GPU to show", style="dim")], 1, _Rank.GPUS)
    if detail.grid:
        count = -(-len(gpus) // in_a_row(look.width))
        wish = Wish(count, min(count, _LEAST_GRID), _Rank.GPUS)
        return ScreenPart(wish, lambda rows: cut_to(as_grid(gpus, canvas), rows))
    if not detail.gpu:
        wish = Wish(len(gpus) + 1, len(gpus) + 1, _Rank.GPUS)
        return ScreenPart(wish, lambda rows: cut_to(as_table(gpus, canvas), rows))
    axis = [] if strips_of_host(look.view) or _is_below_axis(look, canvas) else _axis(canvas)
    return _charted([(axis, ()), *(_titled(look, gpu, detail.gpu) for gpu in gpus)], canvas, _Rank.GPUS)


_LEAST_GRID = 8


def _titled(look: _Look, gpu: GpuView, count: int) -> tuple[list[Text], list[Strip]]:
    """Return the title and the first `count` strips of a GPU. The figures of the others are in the title."""
    strips = strips_of_gpu(gpu)
    shown = [strip for strip in strips[:count] if strip.points and not gpu.problem]
    return [title_of(gpu, strips[count:], _processes_of(look, gpu))], shown


def _charted(groups: Sequence[tuple[Sequence[Text], Sequence[Strip]]], canvas: Canvas, rank: int) -> ScreenPart:
    """Return a part that consists of groups of strips, each below some rows. The strips are drawn only if needed."""
    count = sum(len(strips) for _, strips in groups)
    rows = sum(len(head) for head, _ in groups) + count * canvas.height

    def draw(rows: int) -> Sequence[Text]:
        lines: list[Text] = []
        for head, strips in groups:
            lines += [*head, *(row for strip in strips for row in rows_of(strip, canvas))]
        return cut_to(lines, rows)

    return ScreenPart(Wish(rows, rows, rank), draw, count)


def _processes_of(look: _Look, gpu: GpuView) -> str:
    """Name the processes on a GPU, those that use the most memory first."""
    own = [each for each in look.view.processes if each.gpu == gpu.index and gpu.instance is None]
    named = [
        f"{each.pid} {wording.process(each, look.view.numbers)} {wording.size(each.memory_bytes)}"
        for each in own[:_MOST_NAMED]
    ]
    return "  ".join([*named, *([f"and {len(own) - _MOST_NAMED} more"] if len(own) > _MOST_NAMED else [])])


def _processes(look: _Look) -> list[Text]:
    processes, runs = look.view.processes, look.view.numbers
    rows = [
        Text(f"{each.gpu:<4}{each.pid:>8}  {wording.size(each.memory_bytes):>9}  {wording.process(each, runs)}")
        for each in processes
    ]
    return [Text(f"{'GPU':<4}{'pid':>8}  {'memory':>9}  process", style="bold"), *rows] if rows else []


def _header(view: View, choice: ViewChoice, width: int) -> Text:
    state = "paused" if choice.paused else wording.age(view)
    clock = wording.time_of_day(view.time)
    right = f"{state}  {clock}" if state else clock
    title = Text("oomph watch", style="bold")
    if view.jobs:
        title.append(f"  {shown_line(view.jobs[choice.place(view.jobs)].run)}", style="not bold dim")
    title.truncate(width - len(right) - 2, overflow="ellipsis", pad=True)
    return title.append(f"  {right}", style="not bold")


def _footer(view: View, choice: ViewChoice) -> Text:
    select = "  1-9 run" if len(view.jobs) > 1 else ""
    return Text(f"q quit  p {'resume' if choice.paused else 'pause'}  s sort: {choice.order}{select}", style="dim")


class _Forms(NamedTuple):
    """The ways in which an incident can be shown."""

    row: Text
    message: Sequence[Text]
    remedy: Sequence[Text]


class _Told(NamedTuple):
    """Incidents to show."""

    first: Sequence[_Forms]
    """The incidents that may fit the screen. A run may have a hundred, and wrapping all costs more than the rest."""
    left: int
    """The number of the others."""


def _told(incidents: Sequence[ShownIncident], look: _Look) -> _Told:
    shown, left = cut(len(incidents), look.height)
    whole = shown if not left else 1  # of more than fit, each has a row at most
    first = [
        _Forms(row, _message(each, look), _remedy(each, look)) if place < whole else _Forms(row, [row], [])
        for place, each in enumerate(incidents[:shown])
        for row in (_in_one_row(each, look),)
    ]
    return _Told(first, left)


def _incidents(told: _Told, least: int, rank: int, first_is_whole: bool = False) -> ScreenPart:
    """Return incidents: the first ones whole, and with their remedies, as far as all others still have a row each."""
    count = len(told.first) + told.left

    def draw(rows: int) -> Sequence[Text]:
        spare, lines = rows - count, list[Text]()
        for row, message, remedy in told.first:
            forms = ([*message, *remedy], message, [row])
            chosen = next(form for form in forms if len(form) - 1 <= max(spare, 0))
            lines += chosen
            spare -= len(chosen) - 1
        return cut_to([*lines, *[Text()] * told.left], rows)

    whole = len(told.first[0].message) - 1 if told.first and first_is_whole else 0
    wish = sum(len(each.message) + len(each.remedy) for each in told.first) + told.left
    return ScreenPart(Wish(wish, min(count, least) + whole, rank), draw)


def _in_one_row(incident: ShownIncident, look: _Look) -> Text:
    return Text(wording.incident(incident, look.view.numbers), style=_style(incident))


def _message(incident: ShownIncident, look: _Look) -> list[Text]:
    lines = wrapped(wording.incident(incident, look.view.numbers), look.width, _HANG).split("\n")
    return [Text(line, style=_style(incident)) for line in lines]


def _remedy(incident: ShownIncident, look: _Look) -> list[Text]:
    remedy = wording.remedy(incident)
    return [Text(line, style="dim") for line in wrapped(remedy, look.width, _HANG, _HANG).split("\n")] if remedy else []


def _style(incident: ShownIncident) -> str:
    return "dim" if incident.ended is not None else STYLES[incident.severity]


def _fitted(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line
