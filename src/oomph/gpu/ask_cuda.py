"""Queries libcuda: whether it loads, what cuInit returns, and which GPUs it reports. Does not use GPU memory.

Runs in a child process (`python -I -S ask_cuda.py`) with only the standard library.
"""

import ctypes
import json
import sys
import time

_CC_MAJOR, _CC_MINOR, _MULTIPROCESSORS = 75, 76, 16  # CUdevice_attribute


def _say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _loaded_from(name: str) -> str:
    """Return the path of the file that was mapped into memory for the library."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return next((line.split(maxsplit=5)[5].strip() for line in maps if "/" + name in line), "")
    except OSError:
        return ""


def _integer(call: object, *words: object) -> "int | None":
    value = ctypes.c_int()
    code = call(ctypes.byref(value), *words)  # type: ignore[operator]
    return value.value if code == 0 else None


def _device(cuda: ctypes.CDLL, ordinal: int) -> "dict[str, object]":
    device = _integer(cuda.cuDeviceGet, ordinal)
    if device is None:
        return {"index": ordinal}
    name, bus, uuid, total = (
        ctypes.create_string_buffer(256),
        ctypes.create_string_buffer(32),
        ctypes.create_string_buffer(16),
        ctypes.c_size_t(),
    )
    cuda.cuDeviceGetName(name, 256, device)
    cuda.cuDeviceGetPCIBusId(bus, 32, device)
    cuda.cuDeviceGetUuid(uuid, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    return {
        "index": ordinal,
        "name": name.value.decode(errors="replace"),
        "pci": bus.value.decode(errors="replace"),
        "uuid": uuid.raw.hex(),
        "memory_bytes": total.value,
        "major": _integer(cuda.cuDeviceGetAttribute, _CC_MAJOR, device),
        "minor": _integer(cuda.cuDeviceGetAttribute, _CC_MINOR, device),
        "multiprocessors": _integer(cuda.cuDeviceGetAttribute, _MULTIPROCESSORS, device),
    }


def _main() -> None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        _say(load_error=str(error))
        return
    _say(path=_loaded_from("libcuda"), cuda_version=_integer(cuda.cuDriverGetVersion))
    started = time.monotonic()
    code = cuda.cuInit(0)
    _say(init=code, init_seconds=round(time.monotonic() - started, 4))
    if code != 0:
        return
    count = _integer(cuda.cuDeviceGetCount)
    _say(count=count)
    for ordinal in range(count or 0):
        _say(row=_device(cuda, ordinal))


if __name__ == "__main__":
    _main()
