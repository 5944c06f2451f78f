"""Nested Python values and arrays, as JSON and named arrays: the state that users' callbacks may keep.

Only numbers, text, None, lists, tuples, dicts and arrays: anything else would need unpickling.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_SCALARS = (bool, int, float, str, type(None))


def encode(value: Any, under: str) -> tuple[Any, dict[str, Any]]:
    """The nested value with a reference in place of each array, and the arrays by names that begin with `under`.

    Raises TypeError for any other value, naming its type.
    """
    arrays: dict[str, Any] = {}

    def plain(item: Any) -> Any:
        if isinstance(item, np.generic):
            return plain(item.item())
        if isinstance(item, _SCALARS):
            return item if not isinstance(item, float) or math.isfinite(item) else {"float": repr(item)}
        if isinstance(item, np.ndarray) or hasattr(item, "numpy"):
            array, name = np.asarray(item), f"{under}{len(arrays)}"
            if array.dtype.kind not in "biufc" and array.dtype.name != "bfloat16":
                raise TypeError(f"an array of {array.dtype.name} cannot be saved")
            arrays[name] = array
            return {"array": name}
        if isinstance(item, (list, tuple)):
            return {type(item).__name__ if type(item) in (list, tuple) else "list": [plain(each) for each in item]}
        if isinstance(item, dict):
            return {"dict": [[plain(key), plain(each)] for key, each in item.items()]}
        raise TypeError(f"{type(item).__name__} is neither a number, text, list, tuple, dict nor an array")

    return plain(value), arrays


def decode(document: Any, arrays: dict[str, Any], under: str = "") -> Any:
    """The value that was encoded. Names in `arrays` lack the common prefix `under`."""
    if not isinstance(document, dict):
        return document
    ((kind, content),) = document.items()
    if kind == "float":
        return float(content)
    if kind == "array":
        return arrays[content.removeprefix(under)]
    if kind == "dict":
        return {decode(key, arrays, under): decode(each, arrays, under) for key, each in content}
    items = [decode(each, arrays, under) for each in content]
    return tuple(items) if kind == "tuple" else items
