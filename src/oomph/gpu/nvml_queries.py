"""The NVML queries for each GPU, in one row each. They are prepared once and run every second.

Where drivers differ, a query has several variants, and the first one that a GPU answers is used from then on. NVML
takes the driver's global lock for every call, so slowly changing values are queried only every 10 seconds. pynvml looks
up the library function and allocates its answer in every call, which is three quarters of the cost. The queries here
keep both, but use pynvml's names, structures and errors. Source: NVIDIA, NVML API reference,
https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import c_ulonglong
from dataclasses import dataclass
from typing import Any

Ask = Callable[[dict[str, float]], bool]
"""A function that adds the current values to a dict. It returns False if there are none, and raises
pynvml.NVMLError."""
Bind = Callable[[Any, Any], Ask]
"""A function of the `pynvml` module and a GPU handle that prepares a query. Raises NVMLError if the driver lacks NVML's
function."""

_FIELD_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The union member that contains the value, by NVML_VALUE_TYPE_*."""


def number(key: str, symbol: str, *words: int, kind: Any = ctypes.c_uint, scale: float = 1) -> Bind:
    """Bind an NVML function that returns a single number."""

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
    """Bind an NVML function that fills in a structure.

    Args:
        symbol: the name of the function in the library.
        kind: the name of the structure in pynvml.
        members: the member of the structure for each key.
        version: the name of the structure's version in pynvml, if it has one.
        scale: the factor that converts the members to base units.
    """

    def bind(nvml: Any, handle: Any) -> Ask:
        function, answer = _function(nvml, symbol), getattr(nvml, kind)()
        if version:
            answer.version = getattr(nvml, version)
        arguments = (handle, ctypes.byref(answer))
        # reading a member by name makes pynvml check whether it is text; reading its field descriptor does not
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
    """Bind a field that NVML identifies by number (NVML_FI_DEV_*). A value below `least` means that there is none."""

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
    """Bind a query to pynvml's own functions, which are fast enough for rare queries."""

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


_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
_GPU_SENSOR, _SM_CLOCK, _MEMORY_CLOCK = 0, 1, 2
_MEMORY_TEMPERATURE, _RECOVERY_ACTION = 82, 230  # NVML_FI_DEV_*
_MEGAHERTZ, _MILLI, _PERCENT = 1e6, 1e-3, 1e-2


_SHUTDOWN, _SLOWDOWN = 0, 1  # NVML_TEMPERATURE_THRESHOLD_*
_SHUTDOWN_MARGIN, _SLOWDOWN_MARGIN = 193, 194  # NVML_FI_DEV_TEMPERATURE_*_TLIMIT


def _limits_from_margin(nvml: Any, handle: Any) -> dict[str, float]:
    """Return the temperatures at which a GPU slows down and shuts down, from its margin; empty unless that is positive.

    Since Ada, GPUs report a margin, which is the number of degrees left to the highest operating temperature, and
    limits relative to it: a slowdown limit of -2 lies two degrees above it. Older GPUs report absolute temperatures.
    Some of either kind report a margin of 0 or less at any temperature, just as a hot GPU does, so the first margin
    must be positive.
    """
    margin = nvml.nvmlDeviceGetMarginTemperature(handle)
    if margin <= 0:
        return {}
    base = nvml.nvmlDeviceGetTemperature(handle, _GPU_SENSOR) + margin
    limits: dict[str, float] = {}
    _add_slowdown(nvml, handle)(limits)
    _add_shutdown(nvml, handle)(limits)
    if not limits["shutdown"] <= limits["slowdown"] <= 0:
        return {}
    return {f"temperature_{name}_celsius": base - limit for name, limit in limits.items()}


_add_slowdown, _add_shutdown = field("slowdown", _SLOWDOWN_MARGIN), field("shutdown", _SHUTDOWN_MARGIN)


def _limits_from_thresholds(nvml: Any, handle: Any) -> dict[str, float]:
    """Return the temperatures at which an older GPU slows down and shuts down, in degrees Celsius.

    The GPU may report only one of them.
    """
    limits, refused = {}, None
    for name, threshold in (("slowdown", _SLOWDOWN), ("shutdown", _SHUTDOWN)):
        try:
            celsius = nvml.nvmlDeviceGetTemperatureThreshold(handle, threshold)
        except nvml.NVMLError as error:
            refused = error
        else:
            if celsius > 0:
                limits[f"temperature_{name}_celsius"] = float(celsius)
    if refused is not None and not limits:
        raise refused
    return limits


@dataclass(frozen=True)
class Query:
    """A query, with its variants."""

    keys: tuple[str, ...]
    """The keys of the metrics that the query provides."""
    ways: tuple[Bind, ...]
    slow: bool = False


def _number(key: str, *words: Any, slow: bool = False, **rest: Any) -> Query:
    return Query((key,), (number(key, *words, **rest),), slow)


def _remapped_rows(nvml: Any, handle: Any) -> dict[str, float]:
    _, uncorrected, pending, failure = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_rows_uncorrected": uncorrected,
        "row_remap_pending": int(pending),
        "row_remap_failure": int(failure),
    }


_MEMORY = {"memory_used_bytes": "used", "memory_total_bytes": "total"}
_MEMORY_2 = {**_MEMORY, "memory_reserved_bytes": "reserved"}
_UTILIZATION = {"utilization_ratio": "gpu", "memory_utilization_ratio": "memory"}

QUERIES: tuple[Query, ...] = (
    Query(
        tuple(_MEMORY_2),
        (
            structure("nvmlDeviceGetMemoryInfo_v2", "c_nvmlMemory_v2_t", _MEMORY_2, "nvmlMemory_v2"),
            structure(
                "nvmlDeviceGetMemoryInfo", "c_nvmlMemory_t", _MEMORY
            ),  # drivers before 510 count reserved as used
        ),
    ),
    Query(
        tuple(_UTILIZATION),
        (structure("nvmlDeviceGetUtilizationRates", "c_nvmlUtilization_t", _UTILIZATION, scale=_PERCENT),),
    ),
    _number("temperature_celsius", "nvmlDeviceGetTemperature", _GPU_SENSOR),
    Query(
        ("memory_temperature_celsius",),
        (field("memory_temperature_celsius", _MEMORY_TEMPERATURE, least=1),),  # 0 means that there is no sensor
        slow=True,
    ),
    _number("power_watts", "nvmlDeviceGetPowerUsage", scale=_MILLI),
    _number("sm_clock_hertz", "nvmlDeviceGetClockInfo", _SM_CLOCK, scale=_MEGAHERTZ),
    _number("memory_clock_hertz", "nvmlDeviceGetClockInfo", _MEMORY_CLOCK, scale=_MEGAHERTZ, slow=True),
    Query(
        ("clocks_event_reasons",),
        (
            number("clocks_event_reasons", "nvmlDeviceGetCurrentClocksEventReasons", kind=c_ulonglong),
            number("clocks_event_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", kind=c_ulonglong),  # before 535
        ),
    ),
    Query(
        ("temperature_slowdown_celsius", "temperature_shutdown_celsius"),
        (through_pynvml(_limits_from_margin), through_pynvml(_limits_from_thresholds)),
        slow=True,
    ),
    _number("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", scale=_MILLI, slow=True),
    _number("energy_joules_total", "nvmlDeviceGetTotalEnergyConsumption", kind=c_ulonglong, scale=_MILLI, slow=True),
    _number("sm_clock_max_hertz", "nvmlDeviceGetMaxClockInfo", _SM_CLOCK, scale=_MEGAHERTZ, slow=True),
    _number(
        "ecc_uncorrected_total", "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE, kind=c_ulonglong, slow=True
    ),
    _number("ecc_corrected_total", "nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE, kind=c_ulonglong, slow=True),
    Query(
        ("remapped_rows_uncorrected", "row_remap_pending", "row_remap_failure"),
        (through_pynvml(_remapped_rows),),
        slow=True,
    ),
    _number("pcie_replays_total", "nvmlDeviceGetPcieReplayCounter", slow=True),
    _number("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", slow=True),
    _number("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", slow=True),
    _number("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", slow=True),
    _number("fan_ratio", "nvmlDeviceGetFanSpeed", scale=_PERCENT, slow=True),
    Query(("recovery_action",), (field("recovery_action", _RECOVERY_ACTION),), slow=True),
)
"""All queries. To add one, add a row both here and in `monitor/metrics.py`."""
