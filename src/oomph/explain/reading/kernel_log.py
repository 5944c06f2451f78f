"""Reads the kernel log if this user is allowed to, either all of it or the part written during an attempt.

Sources: Documentation/ABI/testing/dev-kmsg in Linux; NVIDIA, "Xid Errors", https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

ORIGIN = "kernel log"
_COMMANDS = (
    ("journalctl", "--dmesg", "--no-pager", "--lines=20000", "--output=short-iso"),
    ("dmesg",),
)
_FILES = (Path("/var/log/kern.log"),)
_PATIENCE_SECONDS = 10


def messages() -> bytes:
    """Return the kernel messages since boot. Raises OSError if this user has no way to read them."""
    for command in _COMMANDS:
        try:
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout
    for path in _FILES:
        if path.is_file():
            return path.read_bytes()
    raise PermissionError("permission denied; run sudo dmesg | oomph explain, or pass a log file: --kernel-log FILE")


_KILLED = re.compile(r"ut of memory: Killed process (?P<pid>\d+) ")
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<code>\d+)")
BROKEN = frozenset((46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158))
"""The Xids after which, according to NVIDIA's own table (`explain/catalogue/xid.csv`), a GPU must not be trusted until
it is reset or serviced. Xids that can be ignored, or that only require restarting the application, are not included."""
_MOST_RECORDS = 100_000


class KernelLog:
    """Reads the kernel messages that arrive after it is created. There are none if this user may not read the log."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        try:
            self._fd: int | None = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self._fd = None

    def read(self) -> list[str]:
        """Return the messages that have arrived since the last call."""
        records = () if self._fd is None else _records(self._fd)
        return [record.partition(";")[2] or record for record in records]

    def close(self) -> None:
        """Close the kernel log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def oom_killed_at(pid: int, path: Path = Path("/dev/kmsg")) -> Iterator[int]:
    """Yield the times at which the OOM killer killed a process with this PID, as far back as the log goes.

    The times are in nanoseconds since boot, as from `time.monotonic_ns()`. There are none if this user may not read the
    log.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for record in _records(fd):
            killed, stamp = _KILLED.search(record), record.partition(";")[0].split(",")
            if killed and int(killed["pid"]) == pid and len(stamp) > 2 and stamp[2].isdecimal():
                yield int(stamp[2]) * 1000
    finally:
        os.close(fd)


def _records(fd: int) -> Iterator[str]:
    """Yield the records of the kernel log from here on, each as "priority,sequence,microseconds,flags;message"."""
    for _ in range(_MOST_RECORDS):
        try:
            data = os.read(fd, 8192)
        except BrokenPipeError:
            continue  # overwritten before it was read; the next read returns a newer one
        except OSError:
            return  # no more messages at the moment
        if not data:
            return
        yield from data.decode(errors="replace").splitlines()


def xids(lines: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the PCI address, the Xid and the line for each line that reports a GPU error."""
    for line in lines:
        xid = _XID.search(line)
        if xid:
            yield xid["bus"], int(xid["code"]), line


def that_concern(lines: Iterable[str], pids: Collection[int], buses: Collection[str]) -> list[str]:
    """Return the lines about these processes and GPUs, since the log covers those of all users.

    Args:
        lines: the lines of the kernel log.
        pids: the script's processes.
        buses: the PCI addresses of its GPUs; empty if unknown, in which case any GPU counts.
    """
    found = []
    for line in lines:
        killed, xid = _KILLED.search(line), _XID.search(line)
        if (killed and int(killed["pid"]) in pids) or (xid and (not buses or known_bus(xid["bus"], buses))):
            found.append(line)
    return found


def broken_bus(lines: Iterable[str], buses: Collection[str]) -> str | None:
    """Return the PCI address of the last GPU with an Xid in BROKEN, written as in `buses` if listed there, or None."""
    found = None
    for bus, code, _ in xids(lines):
        if code in BROKEN:
            found = known_bus(bus, buses) or bus
    return found


def known_bus(bus: str, buses: Collection[str]) -> str | None:
    """Return the address in `buses` equivalent to `bus`: the kernel writes 0000:3b:00, but NVML 00000000:3B:00.0."""
    wanted = _short(bus)
    return next((known for known in buses if _short(known) == wanted), None)


def _short(bus: str) -> str:
    domain, _, rest = bus.lower().partition(":")
    try:
        return f"{int(domain, 16):x}:{rest.partition('.')[0]}"
    except ValueError:
        return bus  # not an address
