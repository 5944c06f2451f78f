"""One attempt: the script's process from start to end, as close to a plain `python script.py` as a parent can make it.

stdin and stdout are the script's own. stderr passes through unchanged, apart from what `native_reports` holds back. One
loop waits for stderr, signals and the end. It uses no threads, so the supervisor can fork safely between attempts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oomph.files.run_files import OwnFile
from oomph.process import process_group
from oomph.process.child import returncode_of
from oomph.process.descriptors import readable
from oomph.process.process_group import Patience, ProcessGroup
from oomph.process.spawn import Tripwire, Watchdog, spawn
from oomph.process.stderr import Pump, Tail
from oomph.process.terminal import Terminal, stop_self
from oomph.protocol.phases import Power
from oomph.run.hang.limits import Hang
from oomph.run.hang.watch import Watch
from oomph.run.supervisor import stop_requests
from oomph.run.supervisor.native_reports import NativeReports
from oomph.run.supervisor.stop_requests import FORWARDED, Arrival, Signals
from oomph.terminal.console import Voice

_POLL_SECONDS = 0.1
_PREEMPTIONS: Mapping[int, Power] = {signal.SIGTERM: Power.CHECKPOINT_ON_TERM, signal.SIGUSR1: Power.CHECKPOINT_ON_USR1}
"""How schedulers announce a preemption (Slurm, Kubernetes)."""
_TERMINAL_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True)
class Ended:
    """How the process ended: what the kernel reports, and the end of its stderr."""

    returncode: int
    """As `subprocess` has it: −n for death by signal n."""
    seconds: float
    stderr: bytes
    stopped: bool
    """The user or the scheduler requested the end: a death after that is not a crash."""
    asked: str = ""
    """The signal by which a scheduler announced the end; empty when none did."""
    hang: Hang | None = None
    """The hang for which oomph ended it; None when there was none."""
    unkillable: str = ""
    """What keeps it alive despite SIGKILL; empty when it has ended."""


class Attempt:
    """A started script."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        signals: Signals,
        terminal: Terminal,
        log: OwnFile | None = None,
        lock_fd: int | None = None,
        patience: Patience | None = None,
        watch: Watch | None = None,
        on_hang: Callable[[Hang], None] = lambda hang: None,
        meanwhile: Callable[[int], None] = lambda pid: None,
        reports: NativeReports | None = None,
        voice: Voice | None = None,
    ) -> None:
        """Start the script; raises UsageError for an unknown program. Each turn of the loop calls `meanwhile(pid)`."""
        self._watch, self._on_hang, self._meanwhile = watch, on_hang, meanwhile
        self._hang: Hang | None = None
        self._signals, self._terminal, self._patience = signals, terminal, patience or Patience()
        self._tail = Tail(log)
        self._reports, self._voice = reports, voice or Voice()
        self._pump = Pump(2, self._tail, bytes if reports is None else reports.take, self._voice)
        self._started = time.monotonic()
        self._suspending = False
        self._complained = False
        self._tripwire = Tripwire()
        inherited = [self._tripwire.script_fd, *(() if lock_fd is None else (lock_fd,))]
        inherited += () if watch is None else watch.script_fds
        self._process = spawn(argv, environ, self._pump.script_fd, inherited, signals.restore_in_child)
        self._tripwire.set(self._process.pid)
        self._pump.started()
        if watch is not None:
            watch.started()
        self.pid = self._process.pid
        self._group = ProcessGroup(self.pid, self._patience)
        self._watchdog = Watchdog(self.pid)
        signals.forward = self._forward
        for arrival in list(signals.queue):
            self._forward(arrival.signum)  # arrived while the script was starting

    def wait(self) -> Ended:
        """Forward stderr and signals until the script's process ends; its children may live on."""
        while (returncode := returncode_of(self.pid)) is None and not self._group.unkillable:
            try:
                self._attend()
            except Exception as error:  # an error in oomph must not end the script
                self._complain(error)
        self._show_the_rest()
        if returncode is None or self._group.unkillable:
            returncode = -signal.SIGKILL
        self._terminal.take_back(restore_modes=returncode < 0)
        asked = self._asked_by()
        return Ended(
            returncode=returncode,
            seconds=time.monotonic() - self._started,
            stderr=self._tail.data,
            stopped=self._was_stopped(),
            asked=signal.Signals(asked[0].signum).name if asked else "",
            hang=self._hang,
            unkillable=self._group.unkillable,
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """The started process and the reporting process: below a shell they differ."""
        owner = None if self._watch is None else self._watch.owner
        return (self.pid,) if owner in (None, self.pid) else (self.pid, owner)

    def end_group(self, seconds: float = 10.0) -> bool:
        """Kill what the script left running in its group; True when that freed its memory in time.

        Call it before `close`: until the dead script is reaped, no other group can have its number.
        """
        ended = self._group.end(seconds)
        self._pump.drain()
        return ended

    def held(self) -> str:
        """What keeps the reporting process, which also saves, alive despite SIGKILL; empty when it has ended."""
        return self._group.held(self.pids[-1])

    def leave_rest(self) -> None:
        """Let what the script left running continue, as after a plain start, and keep forwarding its stderr."""
        if self._pump.open:
            self._pump.carry_in_background()

    def close(self) -> int:
        """Reap the process; returns its peak memory in bytes."""
        self._signals.forward = None
        self._tripwire.remove()
        self._watchdog.dismiss()
        pid, status, usage = os.wait4(self.pid, os.WNOHANG if self._group.unkillable else 0)
        self._process.returncode = os.waitstatus_to_exitcode(status) if pid else -signal.SIGKILL
        self._pump.close()
        return usage.ru_maxrss * 1024

    def _attend(self) -> None:
        """One turn of the loop."""
        self._wait_for_something()
        self._meanwhile(self.pid)
        self._obey_signals()
        self._follow_stops()
        self._look_for_hang()
        self._group.attend()

    def _show_the_rest(self) -> None:
        """Show the rest of stderr. An error here must not lose the exit code and the diagnosis."""
        try:
            self._pump.drain()
            if self._reports is not None:
                self._pump.show(self._reports.end())
        except Exception as error:
            self._voice.say(f"the end of stderr could not be shown: {type(error).__name__}: {error}")

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            self._voice.say(f"trouble while the script runs: {type(error).__name__}: {error}; the script continues")
        time.sleep(_POLL_SECONDS)

    def _wait_for_something(self) -> None:
        sources = [self._signals.wake_fd, *([self._pump.source_fd] if self._pump.open else [])]
        if self._watch is not None and self._watch.open:
            sources.append(self._watch.read_fd)
        ready = readable(sources, _POLL_SECONDS)
        if self._watch is not None and self._watch.read_fd in ready:
            self._watch.hear()
        if self._pump.source_fd in ready:
            self._pump.carry()
        if self._reports is not None:
            phase = None if self._watch is None else self._watch.phase
            self._pump.show(self._reports.attend(phase, quiet=self._pump.source_fd not in ready))
        if self._signals.wake_fd in ready:
            self._signals.clear_wakeup()

    def _forward(self, signum: int) -> None:
        """Forward a signal, in the signal handler. The second Ctrl-C in a row sends SIGTERM, the third SIGKILL."""
        presses = self._presses_in_a_row() if signum == signal.SIGINT else 0
        if presses == 1 and self._can(Power.CHECKPOINT_ON_INT):
            self._send_to_owner(signum)  # which passes it on once it has saved: that needs its workers
        elif presses:
            self._group.send({1: signal.SIGINT, 2: signal.SIGTERM}.get(presses, signal.SIGKILL))
        elif signum in _PREEMPTIONS and self._can(_PREEMPTIONS[signum]):
            self._preempt(signum)
        elif signum in FORWARDED or signum == signal.SIGTSTP:
            self._group.send(signum)

    def _preempt(self, signum: int) -> None:
        """Let the script save and end by itself, which needs its workers; a second request kills it at once."""
        if self._announcements() > 1:
            self._group.send(signal.SIGKILL)
        else:
            self._send_to_owner(signum)

    def _send_to_owner(self, signum: int) -> None:
        owner = self._watch.owner if self._watch is not None and self._watch.owner_lives else None
        if owner is None:  # it has ended, and its parent still runs
            self._group.send(signum)
            return
        try:
            os.kill(owner, signum)
        except ProcessLookupError:
            pass  # it has just ended

    def _obey_signals(self) -> None:
        for arrival in self._signals.take():
            if arrival.signum == signal.SIGTERM:
                more = self._announcements() > 1
                self._group.kill_by(arrival.at if more else arrival.at + self._patience.terminate_seconds)
            elif arrival.signum == signal.SIGINT:
                if self._presses_in_a_row() > 1:
                    self._group.kill_by(arrival.at + self._patience.interrupt_seconds)
            elif arrival.signum == signal.SIGTSTP:
                self._suspending = True
            elif arrival.signum == signal.SIGCONT:
                self._suspending = False
                self._group.send(signal.SIGCONT)
            elif arrival.signum == signal.SIGWINCH:
                self._pump.follow_window()

    def _look_for_hang(self) -> None:
        """End a script that hangs."""
        found = None if self._watch is None or self._hang is not None else self._watch.look(self.pid)
        if found is not None:
            self._hang = found
            self._on_hang(found)
            self._group.send(signal.SIGTERM)
            self._group.kill_by(time.monotonic() + self._patience.hang_seconds)

    def _follow_stops(self) -> None:
        """When the terminal has stopped the script, lend it the terminal, or stop too, as one job does."""
        stop = process_group.stop_signal(self.pid)
        if stop not in _TERMINAL_STOPS:
            return
        wants_terminal = stop != signal.SIGTSTP
        if wants_terminal and self._terminal.lend(self.pid):
            self._group.send(signal.SIGCONT)
        elif wants_terminal or self._suspending or self._terminal.lent:
            self._stop_together(wants_terminal or self._terminal.lent)

    def _stop_together(self, wants_terminal: bool) -> None:
        self._terminal.take_back()
        self._suspending = False
        stop_self()
        if wants_terminal and not self._terminal.lend(self.pid):
            time.sleep(0.5)  # continued in the background: it will read and be stopped again
        self._group.send(signal.SIGCONT)

    def _presses_in_a_row(self) -> int:
        return stop_requests.presses_in_a_row(self._signals.history, self._patience.double_seconds)

    def _announcements(self) -> int:
        return stop_requests.without_echoes(self._asked_by(), self._patience.echo_seconds)

    def _asked_by(self) -> list[Arrival]:
        usr1 = self._can(Power.CHECKPOINT_ON_USR1)
        return stop_requests.announcements(self._signals.history, self._started, usr1)

    def _can(self, power: Power) -> bool:
        return self._watch is not None and self._watch.can(power)

    def _was_stopped(self) -> bool:
        latest = time.monotonic() - self._patience.terminate_seconds
        return stop_requests.asked_to_end(self._signals.history, latest)
