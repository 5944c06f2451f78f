"""Figures for display: short, of a fixed width in columns, or as a line of blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.monitor.sample import Values
from oomph.terminal.amounts import as_size

UNKNOWN = "-"


def memory(values: Values) -> str:
    """The memory in use and in all: "31.2/80 GiB"."""
    used, total = values.get("memory_used_bytes"), values.get("memory_total_bytes")
    if used is None:
        return UNKNOWN
    shown = as_size(used, "GiB")
    return shown if total is None else f"{shown.removesuffix(' GiB')}/{as_size(total, 'GiB', 0)}"


def percent(ratio: float | None) -> str:
    """A ratio as a percentage."""
    return UNKNOWN if ratio is None or ratio != ratio else f"{ratio * 100:.0f}%"


def celsius(value: float | None) -> str:
    """A temperature."""
    return UNKNOWN if value is None else f"{value:.0f} °C"


def watts(value: float | None) -> str:
    """A power."""
    return UNKNOWN if value is None else f"{value:.0f} W"


def size(size_bytes: int | None) -> str:
    """A number of bytes."""
    return UNKNOWN if size_bytes is None else as_size(size_bytes)


def step_time(seconds: float) -> str:
    """The time of a step in words: "12.3 ms"."""
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def position(at: int | None, of: int | None) -> str:
    """A position: "3/10"; "3" if its end is unknown."""
    if at is None:
        return UNKNOWN
    return f"{at}/{of}" if of is not None else str(at)


BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-:=+*#"
"""The marks for a terminal that cannot show the blocks."""


def sparkline(values: Sequence[float], width: int, top: float, marks: str = BLOCKS) -> str:
    """A line of marks for the newest `width` values from 0 to `top`, the newest last; blanks where there are none
    yet."""
    shown = values[-width:] if width > 0 else ()
    line = "".join(_mark(value / top if top > 0 else 0.0, marks) for value in shown)
    return line.rjust(max(width, 0))


def _mark(share: float, marks: str) -> str:
    if share != share:
        return " "
    return marks[min(max(int(share * len(marks)), 0), len(marks) - 1)]
