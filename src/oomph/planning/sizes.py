"""Amounts of memory in words. Pure."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def in_words(size: float, like: float | None = None) -> str:
    """A number of bytes with three digits: "512 B", "1.5 GiB", "24 GiB"; in the unit of `like`, if it is given."""
    unit, of_unit = 0, size if like is None else like
    while of_unit >= 1000 and unit < len(_UNITS) - 1:
        size, of_unit, unit = size / 1024, of_unit / 1024, unit + 1
    digits = 0 if unit == 0 or size >= 100 else 1 if size >= 10 else 2
    text = f"{size:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {_UNITS[unit]}"
