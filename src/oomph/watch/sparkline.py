"""The last values of a metric as a line of blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-:=+*#"
"""For a terminal that cannot show the blocks."""


def sparkline(values: Sequence[float], width: int, top: float, marks: str = BLOCKS) -> str:
    """The newest `width` values from 0 to `top`, the newest last; blanks where there are none yet."""
    shown = values[-width:] if width > 0 else ()
    line = "".join(_mark(value / top if top > 0 else 0.0, marks) for value in shown)
    return line.rjust(max(width, 0))


def _mark(share: float, marks: str) -> str:
    if share != share:
        return " "
    return marks[min(max(int(share * len(marks)), 0), len(marks) - 1)]
