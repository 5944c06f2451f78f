"""Watches one attempt's heartbeats for the supervisor, and decides whether the script hangs when they stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import oomph
from oomph.process.child import run
from oomph.process.process_group import is_alive, is_in, is_stopped
from oomph.process.process_identity import ProcessIdentity
from oomph.protocol import python_stacks
from oomph.protocol.progress import RECORD, Beat, Phase, Power, has_been_timed, unpack
from oomph.run.hang import limits
from oomph.run.hang.limits import Hang, Silence, Timings

if TYPE_CHECKING:
    import psutil

_LEAST_SECONDS = 0.001
"""The least CPU time, in seconds, between two samples that counts as activity.

While TensorFlow waits, all its threads together use 7 µs per second (measured with a lock, a queue, a generator and a
sleep). A pipeline that receives a few samples per second from a slow disk or network uses more.
"""
_OF_PROCESS = 2
"""Selects the scheduler's clock for a process (`CPUCLOCK_SCHED` in include/linux/posix-timers_types.h)."""


class ActivitySample(NamedTuple):
    """A process tree's counters at one moment."""

    at: float
    pids: frozenset[int]
    cpu_seconds: float
    io_bytes: int
    stopped: bool
    """True if the root process of the tree is stopped, by SIGSTOP or a debugger."""


def activity_of(pid: int) -> ActivitySample | None:
    """Read the counters of a process and its descendants, or return None if the process is gone."""
    import psutil

    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
        stopped = first.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return None
    cpu, io, pids = 0.0, 0, set()
    for process in processes:
        try:
            seconds = _cpu_seconds(process)
            counters = process.io_counters()
        except (psutil.Error, OSError):
            continue
        pids.add(process.pid)
        cpu += seconds
        io += counters.read_chars + counters.write_chars
    return ActivitySample(time.monotonic(), frozenset(pids), cpu, io, stopped)


def was_active(before: ActivitySample, after: ActivitySample) -> bool:
    """True if the tree showed any activity between two samples."""
    if before.pids != after.pids or before.io_bytes != after.io_bytes:
        return True
    return after.cpu_seconds - before.cpu_seconds > _LEAST_SECONDS


def _cpu_seconds(process: psutil.Process) -> float:
    """Return a process's CPU time in seconds, with nanosecond resolution (`clock_getcpuclockid`). psutil is coarser."""
    try:
        return time.clock_gettime(~process.pid << 3 | _OF_PROCESS)
    except OSError:
        times = process.cpu_times()
        return float(times.user + times.system)


STACKS_SIGNAL = signal.SIGRTMIN + 20
"""The signal that makes the script's process write its Python stacks.

SIGUSR1 and SIGUSR2 are left to schedulers and scripts.
"""
_OURS = str(Path(oomph.__file__).resolve().parent)
_STACKS_SECONDS = 1.0
_PY_SPY_SECONDS = 3.0
_PAUSE_SECONDS = 2.0
"""The gap between two checks, in seconds, that means the supervisor was suspended. It checks ten times a second."""
_MOST_BYTES = 200_000
_MOST_OTHERS = 4
"""The maximum number of processes whose stacks are collected in addition to those of the script's main process."""
_SAMPLES_PER_FLOOR = 10
_LEFT_LOOP, _OWN_AFFAIR = "left the loop", "own affair"

Loops = Callable[[], Sequence[tuple[str, int, int]]]


class Watch:
    """Receives the heartbeats and detects when they stop for too long.

    Args:
        timings: the phase durations of earlier attempts, to which this attempt adds its own.
        floor: how long silence is always allowed, in seconds.
        loops: returns the lines of the script's own training loops.
        is_waiting: returns True while the script waits for another worker, whose silence is judged instead.
    """

    def __init__(
        self, timings: Timings, floor: float, loops: Loops = tuple, is_waiting: Callable[[], bool] = lambda: False
    ) -> None:
        self._timings, self._floor, self._loops, self._is_waiting = timings, floor, loops, is_waiting
        self.read_fd, self.beat_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.stacks_fd = os.memfd_create("oomph-stacks")
        self._last: Beat | None = None
        self._place: ProcessIdentity | None = None
        self._since = self._looked = self._idle_since = self._heard = time.monotonic()
        self._sample: ActivitySample | None = None
        self._excuse, self._hung = "", False
        self.open = True
        """False once no process has the write end of the pipe open."""

    @property
    def inodes(self) -> tuple[int, int]:
        """The inodes of the pipe and the stacks file, by which the script's process recognises its descriptors."""
        return os.fstat(self.beat_fd).st_ino, os.fstat(self.stacks_fd).st_ino

    @property
    def script_fds(self) -> tuple[int, int]:
        """The descriptors that the script inherits."""
        return self.beat_fd, self.stacks_fd

    def started(self) -> None:
        """Close the supervisor's copy of the write end, now that the script has it."""
        os.close(self.beat_fd)
        self._since = self._looked = time.monotonic()

    @property
    def phase(self) -> Phase | None:
        """The phase that the script last reported, or None if it hasn't reported any yet."""
        return None if self._last is None else self._last.phase

    @property
    def is_recovering(self) -> bool:
        """True if the script looks for a micro-batch that fits, and has reported a try within the floor."""
        return self.phase is Phase.RECOVERING and time.monotonic() - self._heard < self._floor

    @property
    def owner(self) -> int | None:
        """The PID of the process that sends the heartbeats."""
        return None if self._last is None else self._last.pid

    @property
    def owner_lives(self) -> bool:
        """True if the owner is still alive. If a shell started it, it may have exited and its PID been reused."""
        return self._place is not None and self._place.lives and is_alive(self._place.pid)

    def can(self, power: Power) -> bool:
        """True if the script's process has reported this capability."""
        return self._last is not None and power in self._last.powers

    def hear(self) -> None:
        """Receive the heartbeats that have arrived."""
        try:
            data = os.read(self.read_fd, 2048 * RECORD.size)
        except BlockingIOError:
            return
        self.open = bool(data)
        for beat in unpack(data):
            self._learn(beat)
        if data:
            self._since = self._heard = time.monotonic()
            self._sample, self._excuse = None, ""

    def look(self, group: int) -> Hang | None:
        """Return the hang of the script's process group, if any. Called in every iteration of the supervisor's loop."""
        now = time.monotonic()
        gap, self._looked = now - self._looked, now
        if gap > _PAUSE_SECONDS:  # suspended, or the machine slept: the script could not run either
            self._since += gap
            self._sample = None
        if self._last is None or now - self._since < self._floor / _SAMPLES_PER_FLOOR:
            return None
        self._take_sample(now)
        if self._sample is None or self._sample.stopped or self._is_waiting():
            self._since = now
            return None
        silence = self._silence(now)
        limit = limits.limit(self._timings, silence, self._floor)
        return self._confirm(silence, limit, group) if limits.is_over(silence, limit) else None

    def standing(self, group: int, limit_seconds: float) -> Hang:
        """Describe where the process stands, without judging whether it hangs."""
        silence = time.monotonic() - self._since
        if self._last is None:
            return Hang(Phase.OWN_CODE, -1, silence, limit_seconds, "", "")
        text = "" if is_stopped(self._last.pid) else self._stacks(self._last.pid, group)
        line = python_stacks.blocking_line(python_stacks.parse(text), _OURS)
        return Hang(self._last.phase, self._last.fit, silence, limit_seconds, line, text)

    def crash_stacks(self) -> str:
        """Return what faulthandler wrote on a crash, and the stacks requested after a hang."""
        size = os.fstat(self.stacks_fd).st_size
        return os.pread(self.stacks_fd, min(size, _MOST_BYTES), 0).decode(errors="replace")

    def close(self) -> None:
        """Close the pipe and the stacks file."""
        os.close(self.read_fd)
        os.close(self.stacks_fd)

    def _learn(self, beat: Beat) -> None:
        before, self._last = self._last, beat
        if before is None or before.pid != beat.pid:
            self._place = ProcessIdentity.here(beat.pid)
        if before is None or before.pid != beat.pid or not beat.longest_ns or self._hung:
            return  # a hang that our own signals ended is not a valid measurement
        if has_been_timed(before.phase, beat.phase):
            self._timings.add(before.phase, before.fit, beat.longest_ns / 1e9)

    def _take_sample(self, now: float) -> None:
        assert self._last is not None
        before = self._sample
        if before is not None and now - before.at < self._floor / _SAMPLES_PER_FLOOR:
            return
        self._sample = activity_of(self._last.pid) if self.owner_lives else None
        if before is None or self._sample is None or was_active(before, self._sample):
            self._idle_since = now

    def _silence(self, now: float) -> Silence:
        assert self._last is not None
        phase = Phase.OWN_CODE if self._excuse == _LEFT_LOOP else self._last.phase
        return Silence(
            phase, self._last.fit, now - self._since, now - self._idle_since, untimed=self._excuse == _OWN_AFFAIR
        )  # fmt: skip

    def _confirm(self, silence: Silence, limit: float, group: int) -> Hang | None:
        """Check what the script is executing before calling the silence a hang."""
        assert self._last is not None
        text = self._stacks(self._last.pid, group)
        threads = python_stacks.parse(text)
        busy = not limits.is_idle(silence, self._floor)
        runs_freely = silence.phase is Phase.OWN_CODE and not python_stacks.stands_in_machinery(threads)
        if runs_freely or python_stacks.waits_for_an_answer(threads, _OURS):
            self._since = time.monotonic()  # check again after the same delay
            return None
        if silence.phase is Phase.LOOP and threads and not python_stacks.stands_in(threads, self._loops()):
            self._excuse = _LEFT_LOOP
            return None
        if busy and not silence.untimed and python_stacks.waits_for_the_script(threads, _OURS):
            self._excuse = _OWN_AFFAIR
            return None
        line, self._hung = python_stacks.blocking_line(threads, _OURS), True
        return Hang(silence.phase, silence.fit, silence.seconds, limit, line, text)

    def _stacks(self, owner: int, group: int) -> str:
        text = self._ask_for_stacks(owner) if is_in(owner, group) and _catches(owner, STACKS_SIGNAL) else ""
        others = [pid for pid in (self._sample.pids if self._sample else ()) if pid != owner]
        return text + "".join(_py_spy(pid) for pid in ([] if text else [owner]) + others[:_MOST_OTHERS])

    def _ask_for_stacks(self, owner: int) -> str:
        """Return the stacks that the process writes itself. faulthandler works even while the process waits in C++."""
        begin = size = os.fstat(self.stacks_fd).st_size
        os.kill(owner, STACKS_SIGNAL)
        until = time.monotonic() + _STACKS_SECONDS
        while time.monotonic() < until:
            time.sleep(0.05)
            before, size = size, os.fstat(self.stacks_fd).st_size
            if size > begin and size == before:
                break
        return os.pread(self.stacks_fd, min(size - begin, _MOST_BYTES), begin).decode(errors="replace")


def waits_in_tensorflow(hang: Hang) -> bool | None:
    """True if the process waits inside TensorFlow, as a worker does for the others; None if that is unknown."""
    threads = python_stacks.parse(hang.stacks)
    return python_stacks.waits_in_tensorflow(threads) if threads else None


def _catches(pid: int, signum: int) -> bool:
    """True if the process handles the signal. After an exec it has no handler, and the signal would kill it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (signum - 1) & 1)


def _py_spy(pid: int) -> str:
    """Return the stacks of a process that does not write its own, or nothing if py-spy is not installed."""
    from shutil import which  # late: few processes hang

    program = which("py-spy")
    if program is None:
        return ""
    try:
        dump = run([program, "dump", "--full-filenames", "--pid", str(pid)], os.environ, _PY_SPY_SECONDS)
    except OSError:
        return ""
    return dump.output.decode(errors="replace")
