"""The temperatures at which a GPU slows down and shuts down, as it reports them; never a guess.

GPUs since Ada report a margin, the degrees left to the highest operating temperature, and limits relative to it:
a slowdown at -2 begins two degrees above it. Older ones report degrees. Some of either kind report a margin of 0 or
less at any temperature, which cannot be told from a GPU that is hot: a first margin has to be positive.
"""

from __future__ import annotations

from typing import Any

from oomph.gpu.nvml_call import field

_SENSOR = 0
_SHUTDOWN, _SLOWDOWN = 0, 1  # NVML_TEMPERATURE_THRESHOLD_*
_SHUTDOWN_MARGIN, _SLOWDOWN_MARGIN = 193, 194  # NVML_FI_DEV_TEMPERATURE_*_TLIMIT


def from_margin(nvml: Any, handle: Any) -> dict[str, float]:
    """The limits by the margin; none while it is not positive."""
    margin = nvml.nvmlDeviceGetMarginTemperature(handle)
    if margin <= 0:
        return {}
    base = nvml.nvmlDeviceGetTemperature(handle, _SENSOR) + margin
    limits: dict[str, float] = {}
    _slowdown(nvml, handle)(limits)
    _shutdown(nvml, handle)(limits)
    if not limits["shutdown"] <= limits["slowdown"] <= 0:
        return {}
    return {f"temperature_{name}_celsius": base - limit for name, limit in limits.items()}


_slowdown, _shutdown = field("slowdown", _SLOWDOWN_MARGIN), field("shutdown", _SHUTDOWN_MARGIN)


def from_thresholds(nvml: Any, handle: Any) -> dict[str, float]:
    """The limits in degrees; a GPU may have only one of them."""
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
