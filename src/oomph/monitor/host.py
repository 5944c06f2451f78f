"""Measures the load of the machine, and of the script's process and all its descendants, from /proc once a second.

A process's files stay open: that is cheaper than reopening them, and a descriptor never refers to a different process
that has reused the pid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from oomph.monitor.census import is_name
from oomph.monitor.sample import ScriptProcess
from oomph.process.available_memory import MemoryLimit

_SWAP_SECONDS = 10.0
_MOST = 8192
"""The maximum number of bytes to read from a file. This covers the relevant lines; the rest of /proc/stat has a line
per core and values per interrupt."""
_IDLE, _IOWAIT, _GUEST = 3, 4, 8
_SLOW_SECONDS = 10.0
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_PARENT, _USER, _SYSTEM, _RESIDENT = 1, 11, 12, 21  # field indices in /proc/PID/stat after the name
_MOST_OF_STAT = 4096
_SHARES_COST = 5000
"""The minimum time between two readings of the processes' shares of memory, as a multiple of the CPU time of one:
the kernel walks all of their pages."""


class Host:
    """The machine, or the part of it that this process's cgroup may use.

    Args:
        root: "/", except in tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat, self._meminfo = _opened(root / "proc/stat"), _opened(root / "proc/meminfo")
        self._cpu = (0, 0)
        self._total = _amount(_read(self._meminfo), b"MemTotal")
        self._limit = MemoryLimit(self._total or 0, root)
        self._swap_due = float("-inf")

    def read(self, now: float) -> dict[str, float]:
        """Return the values of the "host" scope that are due. `now` is a monotonic time in seconds."""
        memory = _read(self._meminfo)
        values = {**self._busy(), **self._in_use(memory, now)}
        if now >= self._swap_due:
            self._swap_due = now + _SWAP_SECONDS
            total, free = _amount(memory, b"SwapTotal"), _amount(memory, b"SwapFree")
            if total is not None and free is not None:
                values["swap_used_bytes"] = total - free
        return values

    def _busy(self) -> dict[str, float]:
        """Return the share of time, from 0 to 1, that the cores were busy since the last call, on average."""
        words = _read(self._stat).partition(b"\n")[0].split()[1:]
        try:
            ticks = [int(word) for word in words[:_GUEST]]  # guest time is already included in user time
            idle, total = ticks[_IDLE] + ticks[_IOWAIT], sum(ticks)
        except (ValueError, IndexError):
            return {}
        before, self._cpu = self._cpu, (idle, total)
        elapsed = total - before[1]
        if not before[1] or elapsed <= 0:
            return {}
        return {"cpu_ratio": min(max(1 - (idle - before[0]) / elapsed, 0.0), 1.0)}

    def _in_use(self, memory: bytes, now: float) -> dict[str, float]:
        if self._limit.bytes is not None and (used := self._limit.used(now)) is not None:
            return {"memory_used_bytes": used, "memory_total_bytes": self._limit.bytes}
        available = _amount(memory, b"MemAvailable")
        if self._total is None or available is None:
            return {}
        return {"memory_used_bytes": self._total - available, "memory_total_bytes": self._total}


def _amount(meminfo: bytes, name: bytes) -> int | None:
    """Return the value with this name in a file such as /proc/meminfo, in bytes."""
    words = meminfo.partition(name + b":")[2].split(None, 1)
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def _opened(path: Path) -> int | None:
    """Open a file for repeated reading, since opening it costs more than reading it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(fd: int | None) -> bytes:
    try:
        return b"" if fd is None else os.pread(fd, _MOST, 0)
    except OSError:
        return b""


class ProcessTree:
    """The processes of a script.

    Args:
        script: the pid of the script; 0 if unknown.
        parent: the process whose descendants count if the script is unknown, or was restarted.
        proc: "/proc", except in tests.
    """

    def __init__(self, script: int, parent: int, proc: Path = Path("/proc")) -> None:
        self._script, self._parent, self._proc = script, parent, proc
        self._processes: dict[int, _Process] = {}
        self._root = script or parent
        self._slow_at = self._read_at = float("-inf")
        self._read_before = 0
        """The number of bytes read by processes that have exited."""
        self._shares_at = float("-inf")
        """The time at which the shares are due."""
        self.shares: tuple[ScriptProcess, ...] = ()
        """The share of each process, if `read` has just listed them. With one process, there is nothing to share."""

    @property
    def pids(self) -> frozenset[int]:
        """The pids of the script's processes, as of the last listing."""
        return frozenset(self._processes)

    def owns(self, pid: int) -> bool:
        """True if the process belongs to the script, or was started by one of its processes since the last listing."""
        seen = {0, 1}
        while pid not in seen:
            if pid in self._processes or pid == self._root:
                return True
            seen.add(pid)
            pid = _parent(self._proc, pid)
        return False

    def read(self, now: float) -> dict[str, float]:
        """Return the values of the "process" scope; empty without processes. `now` is a monotonic time in seconds."""
        is_due = now >= self._slow_at + _SLOW_SECONDS
        if is_due:
            self._list()
            self._slow_at = now
        ticks = 0
        for pid, process in list(self._processes.items()):
            if not process.read(is_due):
                self._forget(pid)
                continue
            ticks += process.new_ticks
        self.shares = self._read_shares(now) if is_due else ()
        elapsed, self._read_at = now - self._read_at, now
        if not self._processes:
            return {}
        values: dict[str, float] = {"resident_bytes": sum(process.own_bytes for process in self._processes.values())}
        if is_due:
            read = sum(process.read_bytes for process in self._processes.values())
            values["read_bytes_total"] = self._read_before + read
        if 0 < elapsed < _SLOW_SECONDS:  # not the first time
            values["cpu_cores"] = ticks / _TICKS / elapsed
        return values

    def _read_shares(self, now: float) -> tuple[ScriptProcess, ...]:
        """Return the share of each process. Between two readings, what it shares with others stays the same."""
        if len(self._processes) < 2:
            for process in self._processes.values():
                process.elsewhere = 0
            return ()
        self._find_shared(now)
        return tuple(
            ScriptProcess(pid, process.own_bytes, process.name, pid == self._root)
            for pid, process in self._processes.items()
        )

    def _find_shared(self, now: float) -> None:
        """Read what processes share if that is due, so that pages which a fork shares with its parent count once."""
        if now < self._shares_at:
            for process in self._processes.values():
                process.expect_nothing_new()
            return
        began = time.thread_time()
        for process in self._processes.values():
            process.read_share()
        self._shares_at = now + _SHARES_COST * (time.thread_time() - began)

    def _list(self) -> None:
        found = set(self._found())
        for pid in self._processes.keys() - found:
            self._forget(pid)
        for pid in found - self._processes.keys():
            try:
                self._processes[pid] = _Process(self._proc / str(pid))
            except OSError:
                pass  # it has exited in the meantime

    def _found(self) -> Iterator[int]:
        is_known = bool(self._script) and (self._proc / str(self._script)).exists()
        self._root = self._script if is_known else self._parent
        if is_known:
            yield self._script
        yield from _Children(self._proc).below(self._root)

    def _forget(self, pid: int) -> None:
        process = self._processes.pop(pid)
        self._read_before += process.read_bytes
        process.close()


class _Process:
    """One process. Raises OSError if it does not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stat = os.open(folder / "stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._io: int | None = os.open(folder / "io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._io = None  # it belongs to another user
        self._ticks: int | None = None
        self._resident = self.new_ticks = self.read_bytes = 0
        self.name = ""
        self.elsewhere = 0
        """The bytes of resident memory that count for the processes with which it is shared."""
        self.is_shared = False
        """True if the share has been read."""

    def read(self, also_io: bool) -> bool:
        """Read the process's statistics. Returns False if it has exited, even if its parent has not reaped it yet."""
        try:
            head, _, rest = os.pread(self._stat, _MOST_OF_STAT, 0).rpartition(b")")
            fields = rest.split()
            ticks = int(fields[_USER]) + int(fields[_SYSTEM])
            self._resident = int(fields[_RESIDENT])
        except (OSError, ValueError, IndexError):
            return False
        if fields[0] == b"Z":
            return False
        if self._ticks is None:
            name = head.partition(b"(")[2].decode(errors="replace")
            self.name = name if is_name(name) else "process"
        self.new_ticks = 0 if self._ticks is None else ticks - self._ticks
        self._ticks = ticks
        if also_io:
            self._read_io()
        return True

    @property
    def resident_bytes(self) -> int:
        """The resident memory in bytes, all of it, even if it is shared."""
        return self._resident * _PAGE

    @property
    def own_bytes(self) -> int:
        """The part of its resident memory that counts for this process."""
        return max(self.resident_bytes - self.elsewhere, 0)

    def expect_nothing_new(self) -> None:
        """Count no memory of a new process until its share is read: a fork shares all of it at first."""
        if not self.is_shared:
            self.elsewhere = self.resident_bytes

    def read_share(self) -> None:
        """Read how much of its resident memory counts for other processes; nothing does if that cannot be read."""
        try:
            text = (self._folder / "smaps_rollup").read_bytes()
        except OSError:
            text = b""  # it belongs to another user, or has exited
        whole, share = _amount(text, b"\nRss"), _amount(text, b"\nPss")
        self.elsewhere = 0 if whole is None or share is None else min(max(whole - share, 0), self.resident_bytes)
        self.is_shared = True

    def close(self) -> None:
        """Close its files."""
        os.close(self._stat)
        if self._io is not None:
            os.close(self._io)

    def _read_io(self) -> None:
        if self._io is None:
            return
        try:
            _, _, after = os.pread(self._io, _MOST_OF_STAT, 0).partition(b"\nread_bytes: ")
            self.read_bytes = int(after.partition(b"\n")[0])
        except (OSError, ValueError):
            pass  # it is a zombie, or this kernel does not count bytes read


class _Children:
    """Finds the children of each process."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._of: dict[int, list[int]] | None = None
        if not (proc / f"self/task/{os.getpid()}/children").exists():
            self._of = self._scanned()  # this kernel lacks that file, so every process must be examined

    def below(self, pid: int) -> Iterator[int]:
        """Yield all descendants of a process, excluding the process itself."""
        waiting, seen = [pid], {pid, os.getpid()}
        while waiting:
            for child in self._children(waiting.pop()):
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    yield child

    def _children(self, pid: int) -> list[int]:
        if self._of is not None:
            return self._of.get(pid, [])
        found = []
        for task in _listed(self._proc / f"{pid}/task"):  # each thread has its own list of children
            try:
                found += [int(word) for word in (self._proc / f"{pid}/task/{task}/children").read_bytes().split()]
            except OSError:
                continue
        return found

    def _scanned(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for name in filter(str.isdecimal, _listed(self._proc)):
            found.setdefault(_parent(self._proc, int(name)), []).append(int(name))
        return found


def _parent(proc: Path, pid: int) -> int:
    """Return the pid of a process's parent, or of the process that adopted it; 0 if the process has exited."""
    try:
        return int((proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[_PARENT])
    except (OSError, ValueError, IndexError):
        return 0


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
