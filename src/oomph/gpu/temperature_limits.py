"""The temperatures at which a GPU slows down and shuts down, as it reports them; never a guess.

GPUs since Ada report a margin, the degrees left to the highest operating temperature, and limits relative to it:
a slowdown at -2 begins two degrees above it. Older ones report degrees. Some of either kind report a margin of 0 or
less at any temperature, which cannot be told from a GPU that is hot: a first margin has to be positive.
"""

from __future__ import annotations

from typing import Any

from oomph.gpu.nvml_field import nvml_field

_SENSOR = 0
_SHUTDOWN, _SLOWDOWN = 0, 1  # NVML_TEMPERATURE_THRESHOLD_*
_SHUTDOWN_MARGIN, _SLOWDOWN_MARGIN = 193, 194  # NVML_FI_DEV_TEMPERATURE_*_TLIMIT


def from_margin(nvml: Any, handle: Any) -> dict[str, float]:
    """The limits by the margin; none while it is not positive."""
    margin = nvml.nvmlDeviceGetMarginTemperature(handle)
    if margin <= 0:
        return {}
    base = nvml.nvmlDeviceGetTemperature(handle, _SENSOR) + margin
    slowdown, shutdown = (nvml_field(nvml, handle, field) for field in (_SLOWDOWN_MARGIN, _SHUTDOWN_MARGIN))
    if not shutdown <= slowdown <= 0:
        return {}
    return {"temperature_slowdown_celsius": base - slowdown, "temperature_shutdown_celsius": base - shutdown}


def from_thresholds(nvml: Any, handle: Any) -> dict[str, float]:
    """The limits in degrees."""
    found = {}
    for key, threshold in (("slowdown", _SLOWDOWN), ("shutdown", _SHUTDOWN)):
        celsius = nvml.nvmlDeviceGetTemperatureThreshold(handle, threshold)
        if celsius > 0:
            found[f"temperature_{key}_celsius"] = float(celsius)
    return found
