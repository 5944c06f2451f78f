"""Queues the supervisor's signals for its loop, and forwards them to the script immediately.

Pure functions decide, from the times at which they arrived, whether they request a stop or announce the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from oomph.process.descriptors import readable
from oomph.process.process_group import Patience, ProcessGroup
from oomph.protocol.progress import Power
from oomph.run.hang.watch import Watch

if TYPE_CHECKING:
    from typing_extensions import Self

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_WATCHED = (*FORWARDED, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class Arrival(NamedTuple):
    """A signal, and the `time.monotonic()` at which it arrived."""

    signum: int
    at: float


class Signals:
    """Installs the supervisor's signal handlers for the duration of a run, then restores the old ones."""

    def __init__(self) -> None:
        self.queue: deque[Arrival] = deque()
        self.history: list[Arrival] = []
        self.forward: list[Callable[[int], None]] = []
        """Functions that the signal handler itself calls with the signal, so that the loop cannot delay it."""
        self._old: dict[int, Any] = {}
        self.wake_fd, self._write_fd = -1, -1

    def __enter__(self) -> Self:
        self.wake_fd, self._write_fd = os.pipe()
        os.set_blocking(self.wake_fd, False)
        os.set_blocking(self._write_fd, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for signum in _WATCHED:
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup, or a shell's `&`: the script ignores it too
                self._old[signum] = signal.signal(signum, self._receive)
        # Never ignore SIGCHLD: otherwise the kernel would reap the script before its exit code is read.
        self._old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._receive)
        # Ignore SIGTTOU: otherwise writing to the terminal while the script has it could stop us.
        self._old[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for signum, handler in self._old.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self.wake_fd)
        os.close(self._write_fd)

    def restore_in_child(self) -> None:
        """Restore the handler for SIGTTOU between fork and exec, so that the script doesn't inherit SIG_IGN."""
        signal.signal(signal.SIGTTOU, self._old.get(signal.SIGTTOU, signal.SIG_DFL))

    def wait(self, fds: Iterable[int], seconds: float) -> list[int]:
        """Wait until a signal arrives or one of the descriptors is readable, and return those that are."""
        ready = readable([self.wake_fd, *fds], seconds)
        if self.wake_fd in ready:
            self._clear_wakeup()
        return ready

    def _clear_wakeup(self) -> None:
        """Empty the pipe that woke the loop."""
        try:
            while os.read(self.wake_fd, 4096):
                pass
        except BlockingIOError:
            pass

    def take(self) -> list[Arrival]:
        """Return the signals that arrived since the last call, in order."""
        taken = []
        while self.queue:
            taken.append(self.queue.popleft())
        return taken

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        arrival = Arrival(signum, time.monotonic())
        self.queue.append(arrival)
        if signum in FORWARDED:
            self.history.append(arrival)
        for forward in self.forward:
            forward(signum)


def presses_in_a_row(history: Sequence[Arrival], within: float) -> int:
    """Count the most recent Ctrl-C presses, each at most `within` seconds after the previous one."""
    presses = [arrival.at for arrival in history if arrival.signum == signal.SIGINT]
    count = min(1, len(presses))
    for earlier, later in zip(reversed(presses[:-1]), reversed(presses), strict=False):
        if later - earlier > within:
            break
        count += 1
    return count


def announcements(history: Sequence[Arrival], since: float, usr1: bool) -> list[Arrival]:
    """Return the signals since `since` with which a scheduler or a person announces the end.

    `usr1` is True if SIGUSR1 counts as well, which it does only if the script leaves it to oomph.
    """
    signums = (signal.SIGTERM, signal.SIGUSR1) if usr1 else (signal.SIGTERM,)
    return [one for one in history if one.signum in signums and one.at >= since]


def without_echoes(arrivals: Sequence[Arrival], echo: float) -> int:
    """Count the separate requests. An arrival within `echo` seconds of the previous one only repeats it."""
    times = [arrival.at for arrival in arrivals]
    return sum(number == 0 or at - times[number - 1] > echo for number, at in enumerate(times))


def asked_to_end(history: Sequence[Arrival], latest: float) -> bool:
    """True if someone asked the script to stop, with SIGTERM at any time, or with Ctrl-C or SIGHUP after `latest`."""
    return any(
        arrival.signum == signal.SIGTERM or (arrival.signum in (signal.SIGINT, signal.SIGHUP) and arrival.at > latest)
        for arrival in history
    )


_PREEMPTIONS: Mapping[int, Power] = {signal.SIGTERM: Power.CHECKPOINT_ON_TERM, signal.SIGUSR1: Power.CHECKPOINT_ON_USR1}
"""The signals with which schedulers such as Slurm and Kubernetes announce a preemption."""


class Forwarding:
    """Passes the supervisor's signals on to one attempt."""

    def __init__(
        self, signals: Signals, group: ProcessGroup, patience: Patience, watch: Watch | None, since: float
    ) -> None:
        """Start forwarding. Signals before `since`, a `time.monotonic()` value, were meant for an earlier attempt."""
        self._signals, self._group, self._patience, self._watch = signals, group, patience, watch
        self._since = since
        signals.forward.append(self._forward)
        for arrival in list(signals.queue):
            self._forward(arrival.signum)  # arrived while the script was starting

    def close(self) -> None:
        """Stop forwarding."""
        self._signals.forward.remove(self._forward)

    def obey(self, arrival: Arrival) -> None:
        """Schedule the script to be killed if it does not exit on its own in time."""
        if arrival.signum == signal.SIGTERM:
            more = self._announcements() > 1
            self._group.kill_by(arrival.at if more else arrival.at + self._patience.terminate_seconds)
        elif arrival.signum == signal.SIGINT:
            if self._presses_in_a_row() > 1:
                self._group.kill_by(arrival.at + self._patience.interrupt_seconds)
        elif arrival.signum == signal.SIGCONT:
            self._group.send(signal.SIGCONT)

    @property
    def asked_by(self) -> str:
        """The signal with which a scheduler announced the end, or an empty string if there was none."""
        found = self._asked_by()
        return signal.Signals(found[0].signum).name if found else ""

    @property
    def was_stopped(self) -> bool:
        """True if the user or the scheduler asked the script to stop."""
        latest = time.monotonic() - self._patience.terminate_seconds
        return asked_to_end(self._signals.history, latest)

    def _forward(self, signum: int) -> None:
        """Forward a signal from within its handler. The second Ctrl-C in a row sends SIGTERM, the third SIGKILL."""
        presses = self._presses_in_a_row() if signum == signal.SIGINT else 0
        if presses == 1 and self._can(Power.CHECKPOINT_ON_INT):
            self._send_to_owner(signum)  # the owner passes it on after saving, which needs its workers
        elif presses:
            self._group.send({1: signal.SIGINT, 2: signal.SIGTERM}.get(presses, signal.SIGKILL))
        elif signum in _PREEMPTIONS and self._can(_PREEMPTIONS[signum]):
            self._preempt(signum)
        elif signum in FORWARDED or signum == signal.SIGTSTP:
            self._group.send(signum)

    def _preempt(self, signum: int) -> None:
        """Let the script save, which requires its workers, and exit on its own. A second request kills it at once."""
        if self._announcements() > 1:
            self._group.send(signal.SIGKILL)
        else:
            self._send_to_owner(signum)

    def _send_to_owner(self, signum: int) -> None:
        owner = self._watch.owner if self._watch is not None and self._watch.owner_lives else None
        if owner is None:  # it has exited, but its parent is still running
            self._group.send(signum)
            return
        try:
            os.kill(owner, signum)
        except ProcessLookupError:
            self._group.send(signum)  # it has just exited, but its parent may still be running

    def _presses_in_a_row(self) -> int:
        return presses_in_a_row(self._signals.history, self._patience.double_seconds)

    def _announcements(self) -> int:
        return without_echoes(self._asked_by(), self._patience.echo_seconds)

    def _asked_by(self) -> list[Arrival]:
        usr1 = self._can(Power.CHECKPOINT_ON_USR1)
        return announcements(self._signals.history, self._since, usr1)

    def _can(self, power: Power) -> bool:
        return self._watch is not None and self._watch.can(power)
