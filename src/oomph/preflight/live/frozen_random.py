"""Finds Python random numbers in functions that TensorFlow traces: they are drawn only once, during tracing."""

from __future__ import annotations

import dis
import inspect
import random
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from oomph.script.script_line import is_of_script

_RUN_AS_PYTHON = ("py_function", "numpy_function", "from_generator")
_DEPTH = 3
_NO_DRAWS = ("seed", "default_rng", "RandomState", "Random", "SystemRandom", "Generator", "getstate", "setstate")


def drawn_in(function: Any) -> str:
    """Return the call that draws random numbers, as written, such as "np.random.randint"; empty if none is found."""
    plain = inspect.unwrap(getattr(function, "__func__", function)) if callable(function) else None
    if not isinstance(plain, FunctionType) or not is_of_script(plain.__code__.co_filename):
        return ""
    return next(_draws(plain.__code__, _names_of(plain), _DEPTH), "")


def _names_of(function: FunctionType) -> Mapping[str, Any]:
    free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    closed = {name: cell.cell_contents for name, cell in free if _is_filled(cell)}
    return {**function.__globals__, **closed}


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _draws(code: CodeType, known: Mapping[str, Any], depth: int) -> Iterator[str]:
    if set(code.co_names) & set(_RUN_AS_PYTHON) or depth == 0:
        return
    for written, source, name in _attributes(code, known):
        if _is_source(source) and name not in _NO_DRAWS:
            yield f"{written}.{name}"
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _draws(inner, known, depth)
    for name in code.co_names:
        called = known.get(name)
        if isinstance(called, FunctionType) and is_of_script(called.__code__.co_filename):
            yield from _draws(called.__code__, _names_of(called), depth - 1)


def _attributes(code: CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield each attribute of a value known before the call, as (source text of the value, value, attribute)."""
    written, value = "", None
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME") and name in known:
            written, value = name, known[name]
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and written:
            yield written, value, name
            is_module = isinstance(value, ModuleType)
            written, value = (f"{written}.{name}", getattr(value, name, None)) if is_module else ("", None)
        elif instruction.opname not in ("PUSH_NULL", "CACHE", "PRECALL"):
            written, value = "", None


def _is_source(value: Any) -> bool:
    return value is random or value is np.random or isinstance(value, (np.random.Generator, np.random.RandomState))
