"""Finds the memory in use on each GPU, by querying NVML with ctypes in a forked child of the supervisor.

A faulty driver can block or crash its caller. If the child does not answer, it is killed, and the result is empty.
Unlike `ask_nvml.py`, this module does not need any package, since a run is supervised whether or not nvidia-ml-py is
installed. Source: NVIDIA, NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from oomph.process.descriptors import close_all_but, readable

_TEXT_BYTES = 96


@dataclass(frozen=True)
class Gpu:
    """A GPU as reported by NVML."""

    index: int
    uuid: str
    bus: str
    """The PCI address, as in 00000000:3B:00.0."""
    used_bytes: int


class _Memory(ctypes.Structure):
    """NVML's nvmlMemory_t struct."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Pci(ctypes.Structure):
    """NVML's nvmlPciInfo_t struct."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus_id", ctypes.c_char * 32),
    )


def memory_in_use() -> list[Gpu]:
    """Return all GPUs that answer; empty without a driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    count = ctypes.c_uint()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    return [gpu for index in range(count.value) if (gpu := _gpu(nvml, index)) is not None]


def _gpu(nvml: ctypes.CDLL, index: int) -> Gpu | None:
    handle, memory, pci = ctypes.c_void_p(), _Memory(), _Pci()
    uuid = ctypes.create_string_buffer(_TEXT_BYTES)
    if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return None
    if nvml.nvmlDeviceGetUUID(handle, uuid, _TEXT_BYTES) or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
        return None
    bus = "" if nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci)) else pci.bus_id.decode()
    return Gpu(index, uuid.value.decode(), bus, memory.used)


_ANSWER_SECONDS = 10.0
_REAP_SECONDS = 0.5
_BACK_BYTES = 512 << 20
"""The number of bytes by which memory use may exceed the earlier value, since other processes' contexts come and go."""


class PendingReading:
    """An NVML query that starts immediately, so that the answer is ready when it is needed."""

    def __init__(self) -> None:
        self._fd, write_fd = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _answer(write_fd)
        os.close(write_fd)
        self._until = time.monotonic() + _ANSWER_SECONDS
        self._data = b""

    def gpus(self) -> tuple[Gpu, ...]:
        """Wait for the answer and return it; empty on timeout, or without a GPU or driver."""
        while self._pid:
            self.listen(max(0.0, self._until - time.monotonic()))
        try:
            return tuple(Gpu(**entry) for entry in json.loads(self._data))
        except (ValueError, TypeError):
            return ()

    def listen(self, seconds: float = 0.0) -> None:
        """Receive NVML's answer so far. Call this while waiting for something else, or the child remains a zombie."""
        if not self._pid:
            return
        heard = readable([self._fd], seconds)
        chunk = os.read(self._fd, 65536) if heard else b""
        self._data += chunk
        if not chunk and (heard or time.monotonic() >= self._until):
            self.close()

    def close(self) -> None:
        """Stop the query."""
        if self._pid:
            os.close(self._fd)
            if not reap(self._pid, 0):
                os.kill(self._pid, signal.SIGKILL)
                reap(self._pid, _REAP_SECONDS)
            self._pid = 0


def reap(pid: int, seconds: float) -> bool:
    """Reap a child. Returns False if it does not exit in time, since a child blocked in the kernel may never do so."""
    until = time.monotonic() + seconds
    try:
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
    except ChildProcessError:
        pass  # SIGCHLD was ignored when oomph started, so the kernel reaped the child, and its PID may be reused
    return True


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves visible to the script. Its numbers are assumed to be NVML's."""
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(gpus)
    found = []
    for word in (part.strip() for part in wanted.split(",")):
        one = [gpu for gpu in gpus if str(gpu.index) == word or (word.startswith("GPU-") and gpu.uuid.startswith(word))]
        if len(one) != 1:
            break  # CUDA stops at the first entry it does not recognise
        found += one
    return tuple(found)


def memory_is_back(before: Iterable[Gpu], now: Iterable[Gpu]) -> bool:
    """True if every GPU has about as much free memory as before."""
    used = {gpu.uuid: gpu.used_bytes for gpu in before}
    return all(gpu.used_bytes <= used.get(gpu.uuid, gpu.used_bytes) + _BACK_BYTES for gpu in now)


def _answer(write_fd: int) -> None:
    """Query NVML, write the answer, and exit. Runs in the child."""
    try:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        close_all_but(write_fd)
        os.write(write_fd, json.dumps([asdict(gpu) for gpu in memory_in_use()]).encode())
    finally:
        os._exit(0)
