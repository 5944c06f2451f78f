"""Calls of NVML that are prepared once and made every second.

The functions of pynvml look up the library's function and allocate its answer at every call, which is three
quarters of the cost. These keep both; names, structures and errors are pynvml's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

Ask = Callable[[dict[str, float]], bool]
"""A function that adds the current values to a mapping; False if there are none. Raises pynvml.NVMLError."""
Bind = Callable[[Any, Any], Ask]
"""A function of the module pynvml and a GPU's handle; raises NVMLError if this driver does not have NVML's function."""

_FIELD_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of the union that holds a value, by NVML_VALUE_TYPE_*."""


def number(key: str, symbol: str, *words: int, kind: Any = ctypes.c_uint, scale: float = 1) -> Bind:
    """Bind an NVML function that answers with a single number."""

    def bind(nvml: Any, handle: Any) -> Ask:
        function, answer = _function(nvml, symbol), kind()
        arguments = (handle, *words, ctypes.byref(answer))

        def ask(values: dict[str, float]) -> bool:
            if code := function(*arguments):
                raise nvml.NVMLError(code)
            values[key] = answer.value * scale
            return True

        return ask

    return bind


def structure(symbol: str, kind: str, members: Mapping[str, str], version: str = "", scale: float = 1) -> Bind:
    """Bind an NVML function that fills a structure.

    Args:
        symbol: its name in the library.
        kind: the structure's name in pynvml.
        members: the structure's member for each key.
        version: the name of its version in pynvml, if it has one.
        scale: what one unit of each member is.
    """

    def bind(nvml: Any, handle: Any) -> Ask:
        function, answer = _function(nvml, symbol), getattr(nvml, kind)()
        if version:
            answer.version = getattr(nvml, version)
        arguments = (handle, ctypes.byref(answer))
        # pynvml's structures look at each member that is read by its name whether it is text; their fields do not
        readers = [(key, getattr(type(answer), member).__get__) for key, member in members.items()]

        def ask(values: dict[str, float]) -> bool:
            if code := function(*arguments):
                raise nvml.NVMLError(code)
            for key, read in readers:
                values[key] = read(answer) * scale
            return True

        return ask

    return bind


def field(key: str, number: int, least: float = float("-inf")) -> Bind:
    """Bind a value that NVML gives by number (NVML_FI_DEV_*); a value below `least` says that there is none."""

    def bind(nvml: Any, handle: Any) -> Ask:
        function, answers = _function(nvml, "nvmlDeviceGetFieldValues"), (nvml.c_nvmlFieldValue_t * 1)()
        answers[0].fieldId = number
        answer, arguments = answers[0], (handle, 1, ctypes.byref(answers))

        def ask(values: dict[str, float]) -> bool:
            if code := function(*arguments) or answer.nvmlReturn:
                raise nvml.NVMLError(code)
            value = float(getattr(answer.value, _FIELD_MEMBERS[answer.valueType]))
            if value < least:
                return False
            values[key] = value
            return True

        return ask

    return bind


def through_pynvml(read: Callable[[Any, Any], Mapping[str, float]]) -> Bind:
    """Bind a query to pynvml's own functions: good enough for rare queries."""

    def bind(nvml: Any, handle: Any) -> Ask:
        def ask(values: dict[str, float]) -> bool:
            found = read(nvml, handle)
            values.update(found)
            return bool(found)

        return ask

    return bind


def _function(nvml: Any, symbol: str) -> Any:
    try:
        return getattr(nvml.nvmlLib, symbol)
    except AttributeError:
        raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND) from None
