"""Selects the dialect of an object by the package that its class, or one of its base classes, comes from."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import Any

from oomph.keras_bridge.dialects.dialect import Dialect
from oomph.keras_bridge.dialects.of_keras2 import Keras2Dialect
from oomph.keras_bridge.dialects.of_keras3 import KERAS_3


def dialect_of(thing: Any) -> Dialect:
    """Return the dialect of a model, layer, optimizer or metric; that of Keras 3 for anything else."""
    root = root_of_keras_2(type(thing))
    return KERAS_3 if root is None else keras_2(root)


@cache
def keras_2(root: str) -> Dialect:
    """Return the dialect of the Keras 2 whose modules are in this package."""
    return Keras2Dialect(root)


def root_of_keras_2(kind: type) -> str | None:
    """Return the package that contains the modules of a class's Keras 2, or None if it is not of Keras 2."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in ("keras", "tf_keras") and _is_2(package):
            return f"{package}.src" if _has_src(package) else package
    return None


def _is_2(package: str) -> bool:
    return str(getattr(sys.modules.get(package), "__version__", "")).startswith("2.")


@cache
def _has_src(package: str) -> bool:
    return importlib.util.find_spec(f"{package}.src") is not None
