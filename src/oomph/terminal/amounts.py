"""Formats amounts for people to read. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(number: int, what: str) -> str:
    """Format a number of things, such as "1 step" or "1,200 steps"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Join names into a list such as "a, b and c" or "a, b, c and 2 more"."""
    *first, last = [*names[:most], f"{len(names) - most} more"] if len(names) > most else names
    return f"{', '.join(first)} and {last}" if first else last


def times(count: int) -> str:
    """Format how often something happened: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def as_duration(seconds: float) -> str:
    """Format a duration in its two largest units, such as "2 h 3 min"; a file may hold one that is not finite."""
    if not math.isfinite(seconds):
        return "unknown time"
    whole = int(seconds + 0.5)
    minutes, hours = whole // 60, whole // 3600
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(minutes, "min", whole % 60, "s")
    return _two(hours, "h", minutes % 60, "min") if hours < 48 else _two(hours // 24, "d", hours % 24, "h")


def as_step_time(seconds: float) -> str:
    """Format the duration of a step: "12.3 ms"."""
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _two(many: int, unit: str, rest: int, smaller: str) -> str:
    return f"{many} {unit} {rest} {smaller}" if rest else f"{many} {unit}"


def as_size(size: float, smallest: str = "B", digits: int | None = None) -> str:
    """Format a number of bytes, such as "33 KiB" or "1.5 GiB".

    Args:
        size: the number of bytes.
        smallest: the smallest unit to use, at most GiB.
        digits: the number of decimal places. By default, one for GiB and none for smaller units.
    """
    unit = _UNITS.index(smallest)
    size /= 1024**unit
    while size >= 1024 and unit < _UNITS.index("GiB"):
        size, unit = size / 1024, unit + 1
    if digits is None:
        digits = 1 if _UNITS[unit] == "GiB" else 0
    return f"{size:.{digits}f} {_UNITS[unit]}"


def in_three_digits(size: float, like: float | None = None) -> str:
    """Format a number of bytes with up to three digits, such as "512 B" or "1.5 GiB", in the unit of `like`, if any."""
    unit, of_unit = 0, size if like is None else like
    while of_unit >= 1000 and unit < len(_UNITS) - 1:
        size, of_unit, unit = size / 1024, of_unit / 1024, unit + 1
    digits = 0 if unit == 0 or size >= 100 else 1 if size >= 10 else 2
    text = f"{size:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {_UNITS[unit]}"
