"""Converts configurations to plain values, and names to the form that Keras uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MOST_CHARACTERS = 200


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values in a configuration, including lists of them. Other objects become their class names."""
    return {str(name): value for name, given in values.items() if (value := _plain(given)) is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value[:_MOST_CHARACTERS]
    if isinstance(value, (list, tuple)) and all(isinstance(each, (bool, int, float, str)) for each in value):
        return tuple(value)
    if isinstance(value, Mapping):
        name = value.get("class_name")
        inner = value.get("config")
        if isinstance(inner, str):
            return inner  # a function saved by name
        if isinstance(name, str):
            return name
    return None


def settings_of(thing: Any) -> dict[str, Any]:
    """Return the configuration of a layer, an optimizer or a loss; empty if its class cannot provide one."""
    try:
        found = thing.get_config()
    except Exception:  # a user-defined get_config may raise anything, and Keras raises for classes without one
        return {}
    return plain(found) if isinstance(found, Mapping) else {}


def is_of_keras(thing: Any) -> bool:
    """True if a class or function belongs to Keras."""
    module = getattr(thing, "__module__", "") or ""
    return module.partition(".")[0] in ("keras", "tf_keras")


def snake_case(name: str) -> str:
    """Convert a name to snake case: SparseCategoricalCrossentropy becomes sparse_categorical_crossentropy."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name))
    return parted.lower()


def float_of(value: Any) -> float | None:
    """Convert a number, a tensor or a variable to a float. Returns None if that is impossible."""
    try:
        return float(value)
    except Exception:  # symbolic tensors, schedules, or anything else
        return None
