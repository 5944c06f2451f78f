"""Amounts in words, for people. Pure."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """A number of things: "1 step", "2 steps"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def times(count: int) -> str:
    """How often: "once", "twice", "3 times"."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def as_size(size_bytes: float) -> str:
    """A number of bytes in words: "33 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GiB"
