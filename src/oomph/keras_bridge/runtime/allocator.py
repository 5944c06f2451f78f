"""Reads the training device's TensorFlow allocator (limit, bytes in use, peak), and reports waits for memory.

TensorFlow retries a failed allocation for ten seconds before it raises an error, and does not use the CPU in the
meantime. A step with a loop can wait for many allocations in a row. A thread checks for such a wait whenever progress
pauses for a moment: memory that is nearly full, and a TensorFlow thread that sleeps with a timeout, indicate one.

Source: tensorflow/core/common_runtime/bfc_allocator.cc (`AllocateRaw`, kMaxMillisToWait) and allocator_retry.cc;
futex(2), proc_pid_syscall(5).
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.script.session import Session

_NEARLY_FULL = 0.7
_TOO_MUCH = 1 << 46
"""The number of bytes to request in a test: more than an address space, so that every allocator refuses."""


@dataclass(frozen=True)
class DeviceMemory:
    """A device's allocator. Readings are in bytes, or None where TensorFlow does not report them."""

    device: str
    limit_bytes: int | None

    @classmethod
    def of_training_device(cls, gpu: str | None = None) -> DeviceMemory:
        """Return the allocator of TensorFlow's first GPU or, without one, of the CPU, which by default has no limit.

        Args:
            gpu: the name of a different GPU, such as "GPU:1".
        """
        if gpu is not None:
            return cls(gpu, _listed_limit_bytes(gpu))
        for kind in ("GPU", "CPU"):
            if tf.config.list_logical_devices(kind):
                return cls(f"{kind}:0", _limit_bytes(kind))
        return cls("CPU:0", None)

    def in_use_bytes(self) -> int | None:
        """Return the bytes in use now."""
        return self._reading("current")

    def peak_bytes(self) -> int | None:
        """Return the largest number of bytes in use at any time since the last `reset_peak`."""
        return self._reading("peak")

    def reset_peak(self) -> None:
        """Start a new measurement of the peak."""
        try:
            tf.config.experimental.reset_memory_stats(self.device)
        except (ValueError, tf.errors.OpError):
            pass  # this allocator keeps no statistics

    def was_nearly_full(self) -> bool:
        """True if most of the limit has been in use since the last `reset_peak`: evidence of a disguised OOM."""
        peak = self.peak_bytes()
        return bool(peak and self.limit_bytes and peak >= _NEARLY_FULL * self.limit_bytes)

    def _reading(self, which: str) -> int | None:
        try:
            value = int(tf.config.experimental.get_memory_info(self.device)[which])
        except (ValueError, KeyError, tf.errors.OpError):
            return None
        return value or None


def peak_bytes_of_device() -> int | None:
    """Return the training device's peak in bytes, or None for a CPU without a limit, which has no memory of its own."""
    memory = DeviceMemory.of_training_device()
    return memory.peak_bytes() if memory.device.startswith("GPU") or memory.limit_bytes else None


def _limit_bytes(kind: str) -> int | None:
    if kind == "CPU":
        megabytes = os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB")
        if os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true") and megabytes:
            return int(megabytes) << 20
        return None
    return _listed_limit_bytes(f"{kind}:0")


def _listed_limit_bytes(device: str) -> int | None:
    """Return a device's `memory_limit` from TensorFlow's device list (C API: TF_DeviceListMemoryBytes)."""
    try:
        session = TENSORFLOW.session_library.value()
        devices = TENSORFLOW.list_devices.value()(TENSORFLOW.context_handle.of(TENSORFLOW.context.value()()))
        for index in range(session.TF_DeviceListCount(devices)):
            if session.TF_DeviceListName(devices, index).endswith(f"device:{device}"):
                return int(session.TF_DeviceListMemoryBytes(devices, index)) or None
    except (ImportError, AttributeError, tf.errors.OpError):
        pass  # a private interface: without it, the peak at the failure is used as the limit
    return None


def run_out_of_memory(*_: Any) -> NoReturn:
    """Request an impossible amount of memory for a test, so that TensorFlow raises its own error."""
    tf.zeros([_TOO_MUCH // 8], tf.float64)
    raise AssertionError("an allocator has granted 64 TiB")


_LOOK_SECONDS = 0.5
_SILENT_SECONDS = 1.0
_LONGEST_SECONDS = 600.0
"""The longest silence, in seconds, after which the supervisor may report a hang."""
_TOLD_SECONDS = 60.0
_FULL = 0.9
_FUTEX = {"x86_64": "202", "aarch64": "98"}
_WAIT_UNTIL = 0x189
"""The futex operation (FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) of TensorFlow's timed waits."""
_OURS = "tf_"
"""The prefix of TensorFlow's thread names."""


class MemoryWait:
    """Detects when a process is waiting for memory, starting with its first fit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._memory = DeviceMemory.of_training_device()
        self._told = -_TOLD_SECONDS
        self._waited = 0.0

    @classmethod
    def start(cls, session: Session) -> None:
        """Start the thread if a supervisor is listening and the device has a memory limit."""
        if not session.pulse.is_heard:
            return
        watch = cls(session)
        if watch._memory.limit_bytes:
            threading.Thread(target=watch._run, name="oomph-memory-wait", daemon=True).start()

    def _run(self) -> None:
        while self._session.pulse.is_heard:
            time.sleep(_LOOK_SECONDS)
            try:
                self.look()
            except Exception:
                return  # without this check, the supervisor's limits still apply

    def look(self) -> None:
        """Report a wait for memory if progress has stopped."""
        silent = self._session.pulse.silent_seconds
        if _SILENT_SECONDS <= silent < _LONGEST_SECONDS and self._waits():
            self._session.pulse.tell_power()
            so_far = f"; waited {self._waited:.0f} s so far" if self._waited else ""
            self._waited += _LOOK_SECONDS
            if time.monotonic() - self._told >= _TOLD_SECONDS:
                self._told = time.monotonic()
                self._session.say(
                    f"waiting for memory: TensorFlow retries an allocation for 10 s before it fails{so_far}"
                )

    def _waits(self) -> bool:
        used, limit = self._memory.in_use_bytes(), self._memory.limit_bytes
        if not used or not limit or used < _NEARLY_FULL * limit:
            return False
        threads = list(_threads())
        return waits_with_a_limit(threads) if threads else used >= _FULL * limit


def waits_with_a_limit(threads: Iterable[tuple[str, str]], machine: str | None = None) -> bool:
    """True if any TensorFlow thread is sleeping with a timeout.

    Args:
        threads: for each thread, its name and its line in /proc/PID/task/TID/syscall.
        machine: the name from `platform.machine`, or None for this machine.
    """
    futex = _FUTEX.get(machine or platform.machine())
    for name, line in threads:
        fields = line.split()
        is_wait = len(fields) > 4 and fields[0] == futex and int(fields[2], 16) == _WAIT_UNTIL
        if is_wait and int(fields[4], 16) and name.startswith(_OURS):
            return True
    return False


def _threads() -> Iterable[tuple[str, str]]:
    """Yield the name and system call of each thread, except those that the kernel does not expose."""
    for task in Path("/proc/self/task").iterdir():
        try:
            yield (task / "comm").read_text().strip(), (task / "syscall").read_text()
        except OSError:
            continue


_started: Any = None


def start_once(session: Session) -> None:
    """Start watching this process, unless it is already being watched."""
    global _started
    if _started is None and session.is_owner_now():
        _started = session
        try:
            MemoryWait.start(session)
        except Exception:
            pass  # without it, the supervisor's limits still apply
