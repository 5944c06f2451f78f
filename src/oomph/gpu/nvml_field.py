"""Reads one of the values that NVML gives by number (`NVML_FI_DEV_*`)."""

from __future__ import annotations

from typing import Any

_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""The member of the union that holds a value, by NVML_VALUE_TYPE_*."""


def nvml_field(nvml: Any, handle: Any, field: int) -> float:
    """The value of a field; raises NVMLError."""
    answer = nvml.nvmlDeviceGetFieldValues(handle, [field])[0]
    if answer.nvmlReturn:
        raise nvml.NVMLError(answer.nvmlReturn)
    return float(getattr(answer.value, _MEMBERS.get(answer.valueType, "uiVal")))
