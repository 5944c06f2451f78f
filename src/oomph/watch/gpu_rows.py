"""Draws the GPUs as rows of rich text, in as much detail as there is room for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from oomph.terminal.message import shown_line
from oomph.watch.charts import axis
from oomph.watch.strip_rows import Canvas, bar_of, curve_length, curve_of
from oomph.watch.strips import BAD, Strip, strips_of_gpu
from oomph.watch.view import GpuView

_INDEX, _MEMORY, _USE, _TEMP, _POWER = 4, 13, 4, 6, 5
"""The widths of the figures in a table."""
_BAR, _LEAST_NAME = 8, 12


def title_of(gpu: GpuView, others: Sequence[Strip], processes: str) -> Text:
    """Return the row above the strips of a GPU: its name and processes, and the figures of `others`."""
    title = Text.assemble((f"GPU {gpu.label}", "bold"), f"  {shown_line(gpu.name)}")
    if gpu.problem:
        return title.append(f"  {shown_line(gpu.problem)}", style=BAD)
    for strip in others:
        title.append("  ").append(strip.figure, style=strip.style)
    return title.append(f"  {processes}", style="dim")


def as_table(gpus: Sequence[GpuView], canvas: Canvas) -> list[Text]:
    """Return the headings and one row for each GPU, with curves of its memory and utilization."""
    room = canvas.width - _INDEX - _MEMORY - _USE - _TEMP - _POWER - 3
    length = curve_length((room - _BAR - 3) // 2)
    bar = _BAR if length else 0
    length = length or curve_length((room - 2) // 2)
    time = f" {axis(length, canvas.marks, canvas.end)}" if length else ""
    memory, use = f"{'memory':<{bar + _MEMORY + (bar > 0)}}{time}", f"{'use':>{_USE}}{time}"
    head = f"{'GPU':<{_INDEX}}{memory} {use} {'temp':>{_TEMP}} {'power':>{_POWER}}"
    return [Text(head, style="bold"), *(_table_row(gpu, canvas, bar, length) for gpu in gpus)]


def _table_row(gpu: GpuView, canvas: Canvas, bar: int, length: int) -> Text:
    row = Text(f"{gpu.label:<{_INDEX}}")
    if gpu.problem:
        return row.append(shown_line(gpu.problem), style=BAD)
    memory, use, heat, power = strips_of_gpu(gpu)
    if bar:
        row.append_text(bar_of(memory, bar, canvas.marks)).append(" ")
    for strip, width in ((memory, _MEMORY), (use, _USE)):
        row.append(f"{strip.figure:>{width}}", style=strip.style)
        if length:
            row.append(" ").append_text(curve_of(strip, length, 1, canvas.until, canvas.marks).rows[0])
        row.append(" ")
    row.append(f"{heat.figure:>{_TEMP}}", style=heat.style).append(f" {power.figure:>{_POWER}}")
    if canvas.width - row.cell_len >= _LEAST_NAME + 2:
        row.append(f"  {shown_line(gpu.name)}", style="dim")
    return row


def as_grid(gpus: Sequence[GpuView], canvas: Canvas) -> list[Text]:
    """Return the figures of the GPUs, with as many GPUs on a row as fit."""
    cells, count = [_cell(gpu, canvas) for gpu in gpus], in_a_row(canvas.width)
    return [Text("  ").join(cells[at : at + count]) for at in range(0, len(cells), count)]


def in_a_row(width: int) -> int:
    """Return how many GPUs of a grid fit into a row."""
    return max((width + 2) // (_CELL + 2), 1)


_CELL = _INDEX + _BAR + 1 + _MEMORY + 1 + _USE + 1 + _TEMP


def _cell(gpu: GpuView, canvas: Canvas) -> Text:
    cell = Text(f"{gpu.label:<{_INDEX}}")
    if gpu.problem:
        cell.append(shown_line(gpu.problem), style=BAD)
    else:
        memory, use, heat, _ = strips_of_gpu(gpu)
        cell.append_text(bar_of(memory, _BAR, canvas.marks))
        for strip, width in ((memory, _MEMORY), (use, _USE), (heat, _TEMP)):
            cell.append(f" {strip.figure:>{width}}", style=strip.style)
    cell.truncate(_CELL, overflow="ellipsis", pad=True)
    return cell
