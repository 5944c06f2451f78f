"""Amounts of memory as programs print them, read and written."""

from __future__ import annotations

import re

from oomph.files.patterns import lazy_pattern

_SIZE = lazy_pattern(r"(?P<number>\d{1,18}(?:\.\d{1,18})?)\s{0,8}(?P<unit>[KMGTP]?)i?(?:B|bytes?)?\Z", re.IGNORECASE)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def read_size(text: str) -> int | None:
    """The number of bytes in "1.02GiB", "2147483648", "1.97G" or "800 MiB"; None for anything else."""
    found = _SIZE.match(text.strip())
    if found is None:
        return None
    power = "BKMGTP".index(found["unit"].upper() or "B")
    return int(float(found["number"]) * _STEP**power)


def write_size(amount: int) -> str:
    """An amount as TensorFlow prints it: 1181116006 is "1.10GiB"."""
    value, unit = float(amount), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{amount}B" if unit == 0 else f"{value:.2f}{_UNITS[unit]}"
