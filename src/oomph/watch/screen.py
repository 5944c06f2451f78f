"""The screen of the live view: formats a View as lines of rich text that fit the terminal, and handles keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from rich.text import Text

from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import wrapped
from oomph.watch import wording
from oomph.watch.incidents import ShownIncident
from oomph.watch.job import Job
from oomph.watch.view import CHARTED, GpuView, Process, View
from oomph.watch.wording import BLOCKS, sparkline

ORDERS: Mapping[str, Callable[[GpuView], float]] = MappingProxyType(
    {
        "index": lambda gpu: gpu.index,
        "memory": lambda gpu: -gpu.values.get("memory_used_bytes", 0.0),
        "use": lambda gpu: -gpu.values.get("utilization_ratio", 0.0),
        "temperature": lambda gpu: -gpu.values.get("temperature_celsius", 0.0),
    }
)
"""The sort keys for the GPUs, by the name of the order."""


@dataclass(frozen=True)
class ViewChoice:
    """The choices that the user made with keys."""

    paused: bool = False
    order: str = "index"
    quits: bool = False

    def sorted(self, gpus: Sequence[GpuView]) -> list[GpuView]:
        """Return the GPUs in the chosen order."""
        return sorted(gpus, key=ORDERS[self.order])


def pressed(choice: ViewChoice, key: str) -> ViewChoice:
    """Return the choice after a key press. Unassigned keys do not change it."""
    if key in ("q", "Q"):
        return replace(choice, quits=True)
    if key in ("p", "P"):
        return replace(choice, paused=not choice.paused)
    if key in ("s", "S"):
        orders = list(ORDERS)
        return replace(choice, order=orders[(orders.index(choice.order) + 1) % len(orders)])
    return choice


_HEADS = ("memory", "use", "temp", "power")
_FIGURES = (13, 4, 6, 6)
"""The width of each value, in columns."""
_INDEX = 4
_NARROWEST, _WIDEST = 3, 16
"""The minimum and maximum widths of a sparkline, in columns."""
_WIDE, _NAME = 100, 25
"""The screen width from which GPU names are shown, and the width of a name, in columns."""
_WORST = "bold red"


def gpu_head(width: int) -> Text:
    """Return the line with the column headings."""
    line = _width_of_line(width)
    cells = (f"{title:<{line + 1 + room}}" for title, room in zip(_HEADS, _FIGURES, strict=True))
    return Text(f"{'GPU':<{_INDEX}}{'  '.join(cells)}", style="bold")


def gpu_row(gpu: GpuView, width: int, marks: str) -> Text:
    """Return the line for a GPU."""
    text = Text(f"{gpu.label:<{_INDEX}}")
    if gpu.problem:
        return text.append(shown_line(gpu.problem), style=_WORST)
    line = _width_of_line(width)
    figure = wording.figures(gpu.values)
    for number, key in enumerate(CHARTED):
        text.append("  " if number else "")
        text.append(sparkline(gpu.history.get(key, ()), line, _top(gpu, key), marks), style="cyan")
        text.append(f" {figure[number]:>{_FIGURES[number]}}", style=_style_of_figure(gpu, key))
    if width >= _WIDE:
        text.append(f"  {shown_line(gpu.name)}", style="dim")
    return text


def _width_of_line(width: int) -> int:
    """Return the width of a sparkline, in columns.

    The sparklines share the space left by the values and, on a wide screen, the name of the GPU.
    """
    fixed = _INDEX + sum(_FIGURES) + len(_FIGURES) + 2 * (len(_FIGURES) - 1)
    name = _NAME if width >= _WIDE else 0
    return min(max((width - fixed - name) // len(_FIGURES), _NARROWEST), _WIDEST)


def _top(gpu: GpuView, key: str) -> float:
    """Return the value that a full block represents."""
    values, history = gpu.values, gpu.history.get(key, (0.0,))
    known = {
        "memory_used_bytes": values.get("memory_total_bytes"),
        "utilization_ratio": 1.0,
        "temperature_celsius": values.get("temperature_slowdown_celsius", 100.0),
        "power_watts": values.get("power_limit_watts"),
    }
    return known[key] or max(history)


def _style_of_figure(gpu: GpuView, key: str) -> str:
    """Return the style of a value: red for a temperature at the GPU's limit, or for memory that is nearly used up."""
    values = gpu.values
    if key == "temperature_celsius" and values.get(key, 0.0) >= values.get("temperature_slowdown_celsius", 1e9):
        return _WORST
    if key == "memory_used_bytes" and values.get(key, 0.0) >= 0.98 * values.get("memory_total_bytes", 1e30):
        return _WORST
    return ""


LEAST_WIDTH, LEAST_HEIGHT = 60, 12
_STYLES = {"critical": "red", "warning": "yellow", "notice": "cyan"}
_HANG = " " * 10
"""The indentation of an incident's continuation lines, as wide as its time."""
_PARTS = ((3, 2), (3, 1), (0, 5), (0, 6), (2, 3), (1, 4), (1, 0))
"""The minimum number of rows and the rank of each part: jobs, GPUs, host, processes, current findings, past incidents,
problems."""


def lines_of(view: View, choice: ViewChoice, width: int, height: int, marks: str = BLOCKS) -> list[Text]:
    """Return the lines of the screen: at most `height` of them, each no wider than `width`."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        lines = [Text(f"{width}×{height} is too small:"), Text(f"{LEAST_WIDTH}×{LEAST_HEIGHT} needed"), Text("q quit")]
        return [_fitted(line, width) for line in lines[:height]]
    parts = [
        _jobs(view.jobs),
        _gpus(view, choice, width, marks),
        [Text(wording.host(view.host))] if view.host else [],
        _processes(view.processes),
        _incidents(view.alerts, width),
        _incidents(view.past, width),
        [Text(shown_line(f"{source}: {why}"), style="yellow") for source, why in view.problems.items()],
    ]
    wishes = [Wish(len(part), min(len(part), least), rank) for part, (least, rank) in zip(parts, _PARTS, strict=True)]
    room = height - 2
    rows = allot(room, wishes)
    spare = room - sum(rows)
    lines = [_header(view, choice, width)]
    for part, given in zip(parts, rows, strict=True):
        if part and given and spare > 0 and len(lines) > 1:
            lines.append(Text())
            spare -= 1
        lines += _cut(part, given)
    lines += [Text()] * (height - 1 - len(lines))
    return [_fitted(line, width) for line in [*lines, _footer(choice)]]


def _header(view: View, choice: ViewChoice, width: int) -> Text:
    state = "paused" if choice.paused else wording.age(view)
    clock = wording.time_of_day(view.time)
    right = f"{state}  {clock}" if state else clock
    title = Text("oomph watch", style="bold")
    if view.jobs:
        title.append(f"  {shown_line(view.jobs[0].run)}", style="dim")
    title.truncate(width - len(right) - 2, overflow="ellipsis", pad=True)
    return title.append(f"  {right}")


def _footer(choice: ViewChoice) -> Text:
    return Text(f"q quit  p {'resume' if choice.paused else 'pause'}  s sort: {choice.order}", style="dim")


def _jobs(jobs: Sequence[Job]) -> list[Text]:
    """Return the lines for the jobs: the requested run in full, and one line for each of the others."""
    if not jobs:
        return [Text("no oomph run in this folder", style="dim")]
    first, *others = jobs
    lines = [
        Text(wording.state(first), style="bold"),
        Text(f"  {wording.progress(first)}"),
        *([Text(f"  {wording.pace(first)}")] if wording.pace(first) else []),
    ]
    return lines + [Text(f"{wording.state(job)}  {wording.progress(job)}") for job in others]


def _gpus(view: View, choice: ViewChoice, width: int, marks: str) -> list[Text]:
    if not view.gpus:
        return [Text("no GPU to show", style="dim")]
    return [gpu_head(width), *(gpu_row(gpu, width, marks) for gpu in choice.sorted(view.gpus))]


def _processes(processes: Sequence[Process]) -> list[Text]:
    if not processes:
        return []
    head = Text(f"{'GPU':<4}{'pid':>8}  {'memory':>9}  process", style="bold")
    return [head, *(_process(each) for each in processes)]


def _process(each: Process) -> Text:
    line = f"{each.gpu:<4}{each.pid:>8}  {wording.size(each.memory_bytes):>9}  {shown_line(each.name or '?')}"
    return Text(line + ("  (this run)" if each.own else ""))


def _incidents(incidents: Sequence[ShownIncident], width: int) -> list[Text]:
    """Return the lines for the incidents: the newest in full with its remedy, and one line for each of the others."""
    if not incidents:
        return []
    newest, *others = incidents
    told = wrapped(wording.incident(newest), width, _HANG).split("\n")
    remedy = wording.remedy(newest)
    to_do = wrapped(remedy, width, _HANG, _HANG).split("\n") if remedy else []
    return [
        *(Text(line, style=_style(newest)) for line in told),
        *(Text(line, style="dim") for line in to_do),
        *(Text(wording.incident(each), style=_style(each)) for each in others),
    ]


def _style(incident: ShownIncident) -> str:
    return "dim" if incident.ended is not None else _STYLES[incident.severity]


def _cut(part: Sequence[Text], rows: int) -> list[Text]:
    """Cut the part to `rows` rows. If any are left out, the last row says how many."""
    shown, left = cut(len(part), rows)
    return [*part[:shown], *([Text(f"… {left} more", style="dim")] if left and rows else [])]


def _fitted(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


class Wish(NamedTuple):
    """The number of rows that a part wants, and the minimum that it needs."""

    rows: int
    least: int
    rank: int
    """The rank of the part. Parts with a lower rank are served first."""


def allot(room: int, wishes: Sequence[Wish]) -> list[int]:
    """Return the number of rows for each part, in the given order. Their sum is at most `room`.

    While there is room, each part first receives its minimum, and then the rest of the rows that it wants.
    """
    given = [0] * len(wishes)
    by_rank = sorted(range(len(wishes)), key=lambda part: wishes[part].rank)
    for limit in ("least", "rows"):
        for part in by_rank:
            more = min(max(getattr(wishes[part], limit) - given[part], 0), room)
            given[part] += more
            room -= more
    return given


def cut(count: int, rows: int) -> tuple[int, int]:
    """Return how many of `count` lines fit into the rows, and how many the last row reports as left out."""
    if count <= rows:
        return count, 0
    shown = max(rows - 1, 0)
    return shown, count - shown
