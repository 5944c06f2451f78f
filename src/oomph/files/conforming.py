"""Checks whether a JSON value has the type that its reader relies on: conforms(value, kind) -> bool.

Pure. Used in both processes.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

_MOST = 2**63
"""The bound on integers: no real count is larger, and larger ones can overflow float arithmetic."""
_NOT_FINITE = ("nan", "inf", "-inf")
"""The words that the journal writes for floats that JSON cannot express."""


def conforms(value: object, kind: Any) -> bool:
    """True if a JSON value and all of its parts have this type.

    Args:
        value: a value as returned by `json.loads`; a list counts as a tuple.
        kind: `bool`, `str`, `int` (64 bits, not a bool), `float` (any number, or a word for a non-finite one), `None`,
            a union of these, or `list`, `tuple`, `Sequence` and `Mapping` of these. Raises TypeError for other types.
    """
    plain = _PLAIN.get(kind)  # nearly all types are plain
    if plain is not None:
        return plain(value)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is tuple and parts[-1] is not Ellipsis:
        return (
            isinstance(value, (list, tuple)) and len(value) == len(parts) and all(map(conforms, value, parts))
        )  # fmt: skip
    if origin in (list, tuple, Sequence):
        return isinstance(value, (list, tuple)) and all(conforms(each, parts[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            conforms(key, parts[0]) and conforms(each, parts[1]) for key, each in value.items()
        )
    raise TypeError(f"{kind} is not a JSON value type")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST


def _is_float(value: object) -> bool:
    return _is_int(value) or value in _NOT_FINITE or (isinstance(value, float) and math.isfinite(value))


_PLAIN: Mapping[Any, Callable[[object], bool]] = {
    Any: lambda value: True,
    None: lambda value: value is None,
    type(None): lambda value: value is None,
    bool: lambda value: isinstance(value, bool),
    str: lambda value: isinstance(value, str),
    int: _is_int,
    float: _is_float,
    int | None: lambda value: value is None or _is_int(value),
    float | None: lambda value: value is None or _is_float(value),
    str | None: lambda value: value is None or isinstance(value, str),
}
