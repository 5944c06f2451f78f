"""MemoryWait: reports to the supervisor that TensorFlow is waiting for memory, which is not a hang.

TensorFlow retries a failed allocation for ten seconds before it raises an error, and uses no CPU meanwhile. A step with
a loop can wait for many allocations in a row. A thread checks whenever there is no progress for a moment: nearly full
memory and a TensorFlow thread that sleeps with a time limit indicate such a wait.

Source: tensorflow/core/common_runtime/bfc_allocator.cc (`AllocateRaw`, kMaxMillisToWait) and allocator_retry.cc;
futex(2), proc_pid_syscall(5).
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.script.session import Session

_LOOK_SECONDS = 0.5
_SILENT_SECONDS = 1.0
_LONGEST_SECONDS = 600.0
"""Longest silence in seconds before the supervisor may report a hang."""
_TOLD_SECONDS = 60.0
_NEARLY_FULL, _FULL = 0.7, 0.9
_FUTEX = {"x86_64": "202", "aarch64": "98"}
_WAIT_UNTIL = 0x189
"""The futex operation (FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) of TensorFlow's timed waits."""
_OURS = "tf_"
"""Prefix of the names of TensorFlow's threads."""


class MemoryWait:
    """Watches one process, from its first fit on.

    Args:
        session: the session of the owner process.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._memory = DeviceMemory.of_training_device()
        self._told = -_TOLD_SECONDS
        self._waited = 0.0

    @classmethod
    def start(cls, session: Session) -> None:
        """Start the thread if a supervisor listens and the device has a memory limit."""
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
                return  # without this check, the limits of the supervisor still hold

    def look(self) -> None:
        """Report a wait for memory if progress has stopped."""
        silent = self._session.pulse.silent_seconds
        if _SILENT_SECONDS <= silent < _LONGEST_SECONDS and self._waits():
            self._session.pulse.tell_power()
            so_far = f"; {self._waited:.0f} s waited so far" if self._waited else ""
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
    """True if one of TensorFlow's threads sleeps until a certain time.

    Args:
        threads: for each thread, its name and its line of /proc/PID/task/TID/syscall.
        machine: the name from `platform.machine`; None for this machine.
    """
    futex = _FUTEX.get(machine or platform.machine())
    for name, line in threads:
        fields = line.split()
        is_wait = len(fields) > 4 and fields[0] == futex and int(fields[2], 16) == _WAIT_UNTIL
        if is_wait and int(fields[4], 16) and name.startswith(_OURS):
            return True
    return False


def _threads() -> Iterable[tuple[str, str]]:
    """The name and the system call of each thread, except those that the kernel does not show."""
    for task in Path("/proc/self/task").iterdir():
        try:
            yield (task / "comm").read_text().strip(), (task / "syscall").read_text()
        except OSError:
            continue


_started: Any = None


def start_once(session: Session) -> None:
    """Start watching this process if it is not watched yet."""
    global _started
    if _started is None and session.is_owner_now():
        _started = session
        try:
            MemoryWait.start(session)
        except Exception:
            pass  # without it, the limits of the supervisor still hold
