"""Amounts in words, for people. Pure."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """A number of things: "1 step", "2 steps"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def times(count: int) -> str:
    """How often: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def as_duration(seconds: float) -> str:
    """A time span in its two largest units: "2 h 3 min"."""
    whole = int(seconds + 0.5)
    minutes, hours = whole // 60, whole // 3600
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(minutes, "min", whole % 60, "s")
    return _two(hours, "h", minutes % 60, "min") if hours < 48 else _two(hours // 24, "d", hours % 24, "h")


def _two(many: int, unit: str, rest: int, smaller: str) -> str:
    return f"{many} {unit} {rest} {smaller}" if rest else f"{many} {unit}"


def as_size(size_bytes: float) -> str:
    """A number of bytes in words: "33 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GiB"
