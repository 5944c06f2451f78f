"""decode: builds frozen values from the plain values of JSON."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def decode(kind: Any, value: Any) -> Any:
    """A value of this type from plain JSON values: dataclasses, tuples, optionals."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ValueError(f"no {kind} in {type(value).__name__}")
        hints = typing.get_type_hints(kind)
        known = {each.name for each in fields(kind)}
        return kind(**{name: decode(hints[name], item) for name, item in value.items() if name in known})
    if origin is types.UnionType:
        inner = next(argument for argument in arguments if argument is not types.NoneType)
        return None if value is None else decode(inner, value)
    if origin is tuple:
        item = arguments[0]
        return tuple(decode(item, each) for each in value)
    return value
