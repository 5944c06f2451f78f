"""What is asked of each GPU through NVML, and how: one row for each query.

A query has several ways where drivers differ; a GPU keeps to the first way that it answers. NVML takes the driver's
global lock for every call, so what changes slowly is asked every 10 seconds.
Source: NVIDIA, NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oomph.gpu.nvml_field import nvml_field
from oomph.gpu.temperature_limits import from_margin, from_thresholds

Ask = Callable[[Any, Any], dict[str, float]]
"""Takes the module pynvml and the handle of a GPU; raises its NVMLError."""

_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
_GPU_SENSOR, _SM_CLOCK, _MEMORY_CLOCK = 0, 1, 2
_MEMORY_TEMPERATURE, _RECOVERY_ACTION = 82, 230  # NVML_FI_DEV_*
_MEGAHERTZ, _MILLI, _PERCENT = 1e6, 1e-3, 1e-2


@dataclass(frozen=True)
class Query:
    """One query."""

    keys: tuple[str, ...]
    """The metrics that it gives."""
    ways: tuple[Ask, ...]
    slow: bool = False


def _memory(nvml: Any, handle: Any) -> dict[str, float]:
    info = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    return {
        "memory_used_bytes": info.used,
        "memory_total_bytes": info.total,
        "memory_reserved_bytes": info.reserved,
    }


def _memory_before_510(nvml: Any, handle: Any) -> dict[str, float]:
    info = nvml.nvmlDeviceGetMemoryInfo(handle)  # counts what the driver reserves as used
    return {"memory_used_bytes": info.used, "memory_total_bytes": info.total}


def _utilization(nvml: Any, handle: Any) -> dict[str, float]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {"utilization_ratio": rates.gpu * _PERCENT, "memory_utilization_ratio": rates.memory * _PERCENT}


def _memory_temperature(nvml: Any, handle: Any) -> dict[str, float]:
    celsius = nvml_field(nvml, handle, _MEMORY_TEMPERATURE)
    if celsius <= 0:  # memory without a sensor
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    return {"memory_temperature_celsius": celsius}


def _remapped_rows(nvml: Any, handle: Any) -> dict[str, float]:
    _, uncorrected, pending, failure = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "remapped_rows_uncorrected": uncorrected,
        "row_remap_pending": int(pending),
        "row_remap_failure": int(failure),
    }


def _plain(key: str, name: str, *words: int, scale: float = 1, slow: bool = False) -> Query:
    """A query that is a single number."""

    def ask(nvml: Any, handle: Any) -> dict[str, float]:
        return {key: getattr(nvml, name)(handle, *words) * scale}

    return Query((key,), (ask,), slow)


def _reasons(name: str) -> Ask:
    return _plain("clocks_event_reasons", name).ways[0]


QUERIES: tuple[Query, ...] = (
    Query(("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes"), (_memory, _memory_before_510)),
    Query(("utilization_ratio", "memory_utilization_ratio"), (_utilization,)),
    _plain("temperature_celsius", "nvmlDeviceGetTemperature", _GPU_SENSOR),
    Query(("memory_temperature_celsius",), (_memory_temperature,)),
    _plain("power_watts", "nvmlDeviceGetPowerUsage", scale=_MILLI),
    _plain("sm_clock_hertz", "nvmlDeviceGetClockInfo", _SM_CLOCK, scale=_MEGAHERTZ),
    _plain("memory_clock_hertz", "nvmlDeviceGetClockInfo", _MEMORY_CLOCK, scale=_MEGAHERTZ),
    Query(
        ("clocks_event_reasons",),
        # the second is its name before driver 535
        (_reasons("nvmlDeviceGetCurrentClocksEventReasons"), _reasons("nvmlDeviceGetCurrentClocksThrottleReasons")),
    ),
    Query(("temperature_slowdown_celsius", "temperature_shutdown_celsius"), (from_margin, from_thresholds), slow=True),
    _plain("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", scale=_MILLI, slow=True),
    _plain("energy_joules_total", "nvmlDeviceGetTotalEnergyConsumption", scale=_MILLI, slow=True),
    _plain("sm_clock_max_hertz", "nvmlDeviceGetMaxClockInfo", _SM_CLOCK, scale=_MEGAHERTZ, slow=True),
    _plain("ecc_uncorrected_total", "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE, slow=True),
    _plain("ecc_corrected_total", "nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE, slow=True),
    Query(("remapped_rows_uncorrected", "row_remap_pending", "row_remap_failure"), (_remapped_rows,), slow=True),
    _plain("pcie_replays_total", "nvmlDeviceGetPcieReplayCounter", slow=True),
    _plain("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", slow=True),
    _plain("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", slow=True),
    _plain("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", slow=True),
    _plain("fan_ratio", "nvmlDeviceGetFanSpeed", scale=_PERCENT, slow=True),
    Query(
        ("recovery_action",),
        (lambda nvml, handle: {"recovery_action": nvml_field(nvml, handle, _RECOVERY_ACTION)},),
        slow=True,
    ),
)
"""All queries. A new one is a row here and in `monitor/metrics.py`."""
