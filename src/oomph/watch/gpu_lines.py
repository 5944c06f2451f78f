"""The GPUs as lines of the live view: a column for each charted metric, as wide as the screen allows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from oomph.terminal.message import shown_line
from oomph.watch import figures
from oomph.watch.figures import sparkline
from oomph.watch.view import CHARTED, GpuView

_HEADS = ("memory", "use", "temp", "power")
_FIGURES = (13, 4, 6, 6)
"""The width of each figure, in columns."""
_INDEX = 4
_NARROWEST, _WIDEST = 3, 16
"""The least and the most columns of a sparkline."""
_WIDE, _NAME = 100, 25
"""The columns from which on the name of a GPU is shown, and the columns for the name."""
_WORST = "bold red"


def head(width: int) -> Text:
    """The line with the heads of the columns."""
    line = _width_of_line(width)
    cells = (f"{title:<{line + 1 + room}}" for title, room in zip(_HEADS, _FIGURES, strict=True))
    return Text(f"{'GPU':<{_INDEX}}{'  '.join(cells)}", style="bold")


def row(gpu: GpuView, width: int, marks: str) -> Text:
    """The line of one GPU."""
    text = Text(f"{gpu.label:<{_INDEX}}")
    if gpu.problem:
        return text.append(shown_line(gpu.problem), style=_WORST)
    line = _width_of_line(width)
    figure = _figures(gpu)
    for number, key in enumerate(CHARTED):
        text.append("  " if number else "")
        text.append(sparkline(gpu.history.get(key, ()), line, _top(gpu, key), marks), style="cyan")
        text.append(f" {figure[number]:>{_FIGURES[number]}}", style=_style(gpu, key))
    if width >= _WIDE:
        text.append(f"  {shown_line(gpu.name)}", style="dim")
    return text


def _figures(gpu: GpuView) -> Sequence[str]:
    values = gpu.values
    return (
        figures.memory(values),
        figures.percent(values.get("utilization_ratio")),
        figures.celsius(values.get("temperature_celsius")),
        figures.watts(values.get("power_watts")),
    )


def _width_of_line(width: int) -> int:
    """The width of a sparkline in columns: a share of what the figures and, on a wide screen, the name of the GPU
    leave."""
    fixed = _INDEX + sum(_FIGURES) + len(_FIGURES) + 2 * (len(_FIGURES) - 1)
    name = _NAME if width >= _WIDE else 0
    return min(max((width - fixed - name) // len(_FIGURES), _NARROWEST), _WIDEST)


def _top(gpu: GpuView, key: str) -> float:
    """The value that a full block stands for."""
    values, history = gpu.values, gpu.history.get(key, (0.0,))
    known = {
        "memory_used_bytes": values.get("memory_total_bytes"),
        "utilization_ratio": 1.0,
        "temperature_celsius": values.get("temperature_slowdown_celsius", 100.0),
        "power_watts": values.get("power_limit_watts"),
    }
    return known[key] or max(history)


def _style(gpu: GpuView, key: str) -> str:
    """The style of a figure: red for a temperature at the GPU's limit, and for memory nearly used up."""
    values = gpu.values
    if key == "temperature_celsius" and values.get(key, 0.0) >= values.get("temperature_slowdown_celsius", 1e9):
        return _WORST
    if key == "memory_used_bytes" and values.get(key, 0.0) >= 0.98 * values.get("memory_total_bytes", 1e30):
        return _WORST
    return ""
