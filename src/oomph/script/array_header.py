"""Reads the header of a NumPy array without NumPy: its types and their sizes.

Source: `numpy.lib.format`, restricted to what it writes for numbers, texts and dates.
"""

from __future__ import annotations

import ast
import math
import re
from typing import Any

_MARK = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_MOST = 1 << 20
_PLAIN = re.compile(r"[<>|=](?:([biufcSV])(\d{1,9})|(U)(\d{1,9})|[mM](8)(?:\[\d{0,9}[A-Za-z]{1,7}\])?)")


def follows_arrays(content: bytes) -> bool:
    """True if the content is only arrays without objects, one after the other."""
    at = 0
    while at < len(content):
        size = _size(content, at)
        if size is None or size > len(content) - at:
            return False
        at += size
    return at > 0


def _size(content: bytes, at: int) -> int | None:
    """The bytes that the array at `at` takes, including its header; None unless it holds plain values."""
    start = at + len(_MARK) + 2
    width = _LENGTH_BYTES.get(content[start - 2]) if len(content) > start and content.startswith(_MARK, at) else None
    if width is None:
        return None
    length = int.from_bytes(content[start : start + width], "little")
    header = content[start + width : start + width + length]
    try:
        document = ast.literal_eval(header.decode("utf-8")) if length <= _MOST else None
        return start + width + length - at + _bytes_of(document)
    except Exception:
        return None


def _bytes_of(document: Any) -> int:
    if set(document) != {"descr", "fortran_order", "shape"}:
        raise ValueError(document)
    return _bytes_in(document["descr"]) * _items(document["shape"])


def _bytes_in(kind: Any) -> int:
    """The bytes that a value of this type takes; the type is a text such as "<f4", or a list of fields."""
    if isinstance(kind, str):
        found = _PLAIN.fullmatch(kind)
        if found is None:
            raise ValueError(kind)
        return int(found[2] or 0) + 4 * int(found[4] or 0) + int(found[5] or 0)
    if type(kind) is not list:
        raise TypeError(kind)
    return sum(_bytes_in(field[1]) * _items(field[2] if len(field) == 3 else ()) for field in kind)


def _items(shape: Any) -> int:
    if type(shape) is not tuple or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError(shape)
    return math.prod(shape)
