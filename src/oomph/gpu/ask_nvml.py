"""Queries NVML for the driver version and each GPU's memory, processes, health and clocks. Read-only.

Runs in a child process (`python ask_nvml.py`) with nvidia-ml-py. If a GPU does not answer a query, the value is null.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

_VOLATILE, _UNCORRECTED, _GPU_TEMPERATURE, _SLOWDOWN, _SM_CLOCK = 0, 1, 0, 1, 1


def _say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""  # in a different container, or it has exited


def _processes(nvml: Any, handle: Any) -> list[dict[str, object]]:
    found = [
        *nvml.nvmlDeviceGetComputeRunningProcesses(handle),
        *nvml.nvmlDeviceGetGraphicsRunningProcesses(handle),
    ]
    rows = {p.pid: {"pid": p.pid, "memory_bytes": p.usedGpuMemory, "name": _command(p.pid)} for p in found}
    return list(rows.values())


def _device(nvml: Any, index: int) -> dict[str, object]:
    """Return the row for a GPU. If the driver has lost it, `lost` contains the reason."""
    row: dict[str, object] = {"index": index}

    def ask(name: str, query: Callable[[], Any]) -> None:
        try:
            row[name] = query()
        except nvml.NVMLError as error:
            row[name] = None
            if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
                row["lost"] = str(error)
        except Exception:
            row[name] = None  # an old driver without the function, or an answer that pynvml cannot decode

    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    ask("name", lambda: _text(nvml.nvmlDeviceGetName(handle)))
    ask("uuid", lambda: _text(nvml.nvmlDeviceGetUUID(handle)))
    ask("pci", lambda: _text(nvml.nvmlDeviceGetPciInfo(handle).busId))
    _ask_memory(nvml, handle, row, ask)
    ask("processes", lambda: _processes(nvml, handle))
    ask("compute_mode", lambda: nvml.nvmlDeviceGetComputeMode(handle))
    ask("persistence", lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle)))
    ask("mig", lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]))
    ask("ecc_uncorrected", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _VOLATILE))
    ask("remapped_rows", lambda: [int(number) for number in nvml.nvmlDeviceGetRemappedRows(handle)])
    ask("retired_pending", lambda: bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)))
    ask("celsius", lambda: nvml.nvmlDeviceGetTemperature(handle, _GPU_TEMPERATURE))
    ask("slowdown_celsius", lambda: nvml.nvmlDeviceGetTemperatureThreshold(handle, _SLOWDOWN))
    ask("throttle", lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    ask("sm_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, _SM_CLOCK))
    ask("sm_mhz_max", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _SM_CLOCK))
    return row


def _ask_memory(nvml: Any, handle: Any, row: dict[str, object], ask: Callable[[str, Callable[[], Any]], None]) -> None:
    def memory() -> list[int]:
        try:
            info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        except nvml.NVMLError_FunctionNotFound:
            info = nvml.nvmlDeviceGetMemoryInfo(handle)  # drivers before 510 count reserved memory as used
        return [int(info.total), int(info.used), int(info.free)]

    ask("memory", memory)
    values = row.pop("memory")
    for name, value in zip(("total_bytes", "used_bytes", "free_bytes"), values or (None,) * 3, strict=True):  # type: ignore[call-overload]
        row[name] = value


def _main() -> None:
    try:
        import pynvml as nvml
    except ImportError:
        _say(unavailable="nvidia-ml-py is not installed alongside oomph")
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        _say(init=error.value, error=str(error))
        return
    _say(init=0, driver=_text(nvml.nvmlSystemGetDriverVersion()))
    _say(cuda_version=nvml.nvmlSystemGetCudaDriverVersion())
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            _say(row=_device(nvml, index))
        except nvml.NVMLError as error:
            _say(row={"index": index, "lost": str(error)})


if __name__ == "__main__":
    _main()
