"""Runs one process of an attempt from start to exit, as close to a plain `python script.py` as possible.

stdin and stdout belong to the script, and stderr to its front. A single loop waits for output, heartbeats, signals and
the process's exit, for one process or for several. There are no threads, so the supervisor can safely fork between
attempts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from subprocess import DEVNULL
from typing import NamedTuple, Protocol

from oomph.process.child import returncode_of
from oomph.process.process_group import Patience, ProcessGroup, is_stopped
from oomph.process.spawn import Tripwire, Watchdog, spawn
from oomph.run.hang.limits import Hang
from oomph.run.hang.watch import Watch
from oomph.run.supervisor.front import Front
from oomph.run.supervisor.stop_requests import Arrival, Forwarding, Signals

_POLL_SECONDS = 0.1
_OF_THE_FRONT = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class KernelReport(NamedTuple):
    """The kernel's report on an attempt."""

    oom_kills: int | None
    """The number of new OOM kills in oomph's control group, or None if they are not counted there."""
    lines: Sequence[str]
    """The lines of the kernel log about the script and its GPUs."""
    broken_gpu: str
    """The UUID of the GPU that the log reports as broken, if any, or its bus address if NVML doesn't know it."""


class Ended(NamedTuple):
    """The ending of the process: the status that the kernel reports, and the last part of its stderr."""

    returncode: int
    """The return code as in `subprocess`: −n for death by signal n."""
    seconds: float
    stderr: bytes
    stopped: bool
    """True if the user or the scheduler asked the script to stop. A death after that is not a crash."""
    asked: str = ""
    """The signal with which a scheduler announced the end, or an empty string if there was none."""
    hang: Hang | None = None
    """The hang that made oomph end the script, or None if there was none."""
    unkillable: str = ""
    """The reason why the process survives SIGKILL, or an empty string if it has exited."""
    kernel: KernelReport | None = None
    """The report of the kernel of the process's machine, if that is another one than the supervisor's."""
    is_lost: bool = False
    """True if that machine, or the process that holds its place there, is gone."""


class Attempt:
    """A script that was started and is supervised until it exits."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        front: Front,
        signals: Signals,
        lock_fd: int | None = None,
        patience: Patience | None = None,
        watch: Watch | None = None,
        on_hang: Callable[[Hang], None] = lambda hang: None,
        meanwhile: Callable[[int], None] = lambda pid: None,
        complain: Callable[[str], None] = lambda text: None,
        forwarding: type[Forwarding] = Forwarding,
    ) -> None:
        """Start the script. Raises UsageError for an unknown program. Each loop iteration calls `meanwhile(pid)`."""
        self._front, self._signals, self._watch = front, signals, watch
        self._on_hang, self._meanwhile, self._complain_to = on_hang, meanwhile, complain
        self._hang: Hang | None = None
        self._patience = patience or Patience()
        self._started = time.monotonic()
        self._complained = False
        self._tripwire = Tripwire()
        inherited = [self._tripwire.script_fd, *(() if lock_fd is None else (lock_fd,))]
        inherited += () if watch is None else watch.script_fds
        error_fd, ready = front.script_fd, signals.restore_in_child
        apart = {} if front.is_shown else {"stdout_fd": error_fd, "stdin": DEVNULL}
        self._process = spawn(argv, environ, error_fd, inherited, ready, **apart)
        self._tripwire.set(self._process.pid)
        front.started()
        if watch is not None:
            watch.started()
        self.pid = self._process.pid
        self._group = ProcessGroup(self.pid, self._patience)
        self._watchdog = Watchdog(self.pid)
        self._forwarding = forwarding(signals, self._group, self._patience, watch, self._started)

    def wait(self) -> Ended:
        """Pass on output and signals until the script's process exits. Its children may outlive it."""
        while self.is_running:
            attend([self], self._signals)
        return self.ended()

    @property
    def is_running(self) -> bool:
        """True until the process has exited, or is known to survive SIGKILL."""
        return returncode_of(self.pid) is None and not self._group.unkillable

    @property
    def is_stopped(self) -> bool:
        """True if the process is stopped, as by SIGSTOP."""
        return is_stopped(self.pid)

    def ended(self) -> Ended:
        """Return how the process ended, once it is no longer running, and show the rest of its output."""
        returncode = returncode_of(self.pid)
        if returncode is None or self._group.unkillable:
            returncode = -signal.SIGKILL
        return Ended(
            returncode=returncode,
            stderr=self._front.end(killed=returncode < 0),
            seconds=time.monotonic() - self._started,
            stopped=self._forwarding.was_stopped,
            asked=self._forwarding.asked_by,
            hang=self._hang,
            unkillable=self._group.unkillable,
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """The PIDs of the started process and of the process that sends heartbeats, which differ under a shell."""
        owner = None if self._watch is None else self._watch.owner
        return (self.pid,) if owner in (None, self.pid) else (self.pid, owner)

    def end_within(self, seconds: float) -> None:
        """Ask the process to end, and kill it unless it does so in time."""
        self._group.send(signal.SIGTERM)
        self.kill_within(seconds)

    def kill_within(self, seconds: float) -> None:
        """Kill the process unless it ends on its own in time."""
        self._group.kill_by(time.monotonic() + seconds)

    def end_group(self, seconds: float = 10.0) -> bool:
        """Kill the processes that the script left in its group. Return True if that freed their memory in time.

        Call this before `close`: until the dead script is reaped, its group number cannot be reused.
        """
        ended = self._group.end(seconds)
        self._front.drain()
        return ended

    def held(self) -> str:
        """Explain why the process that sends heartbeats survives SIGKILL, or return an empty string if it has exited.

        This is also the process that saves checkpoints.
        """
        return self._group.held(self.pids[-1])

    def leave_rest(self) -> None:
        """Let the processes that the script left running continue, as they would without oomph."""
        self._front.leave_rest()

    def close(self) -> int:
        """Reap the process, and return its peak memory in bytes."""
        self._forwarding.close()
        self._tripwire.remove()
        self._watchdog.dismiss()
        pid, status, usage = os.wait4(self.pid, os.WNOHANG if self._group.unkillable else 0)
        self._process.returncode = os.waitstatus_to_exitcode(status) if pid else -signal.SIGKILL
        self._front.close()
        return usage.ru_maxrss * 1024

    def sources(self) -> list[int]:
        """Return the descriptors that become readable when there is something to attend to."""
        watch = self._watch
        return [*self._front.sources(), *([watch.read_fd] if watch is not None and watch.open else [])]

    def attend(self, ready: Collection[int], arrivals: Sequence[Arrival]) -> None:
        """Pass on output, heartbeats and signals. An error in oomph must not end the script."""
        try:
            self._attend(ready, arrivals)
        except Exception as error:
            self._complain(error)

    def _attend(self, ready: Collection[int], arrivals: Sequence[Arrival]) -> None:
        watch = self._watch
        if watch is not None and watch.read_fd in ready:
            watch.hear()
        self._front.carry(ready, None if watch is None else watch.phase)
        self._meanwhile(self.pid)
        for arrival in arrivals:
            if arrival.signum in _OF_THE_FRONT:
                self._front.obey(arrival.signum)
            self._forwarding.obey(arrival)
        self._front.follow_stops(self.pid, self._group)
        self._look_for_hang()
        self._group.attend()

    def _look_for_hang(self) -> None:
        """End the script if it hangs."""
        found = None if self._watch is None or self._hang is not None else self._watch.look(self.pid)
        if found is not None:
            self._hang = found
            self._on_hang(found)
            self.end_within(self._patience.hang_seconds)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            self._complain_to(f"watching the script failed: {type(error).__name__}: {error}; the script continues")
        time.sleep(_POLL_SECONDS)


class Attended(Protocol):
    """A process that the loop attends to."""

    def sources(self) -> list[int]:
        """Return the descriptors that become readable when there is something to attend to."""

    def attend(self, ready: Collection[int], arrivals: Sequence[Arrival]) -> None:
        """Pass on output, heartbeats and signals."""


def attend(attempts: Sequence[Attended], signals: Signals) -> None:
    """Wait until something happens, and let each of the running processes' attempts handle it."""
    ready = signals.wait([fd for attempt in attempts for fd in attempt.sources()], _POLL_SECONDS)
    arrivals = signals.take()
    for attempt in attempts:
        attempt.attend(ready, arrivals)
