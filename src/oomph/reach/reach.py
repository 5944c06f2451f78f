"""Starts a script, waits until its training call has been examined, and kills it. Runs in oomph's process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from oomph.process import process_group
from oomph.process.child import returncode_of
from oomph.process.descriptors import fill_standard, readable
from oomph.process.isolation.descendants import adopt_orphans, end_own_strays
from oomph.process.process_group import Patience, Terminal
from oomph.process.spawn import Tripwire, spawn
from oomph.process.stderr import Pump, Tail
from oomph.protocol.handover import REHEARSAL
from oomph.protocol.handover import VARIABLE as RUN_VARIABLE
from oomph.protocol.ownership import VARIABLE as OWNER_VARIABLE
from oomph.reach.channel import Pipes
from oomph.reach.ending import hidden, may_be_a_crash, outcome, ran_out
from oomph.reach.guards import MemoryGuard, Unjoined
from oomph.reach.request import Heard, NotReached, ReachRequest, TrainingReached, after
from oomph.reach.script_output import StartUpNoise
from oomph.run.supervisor.effects import put_site_first
from oomph.terminal.console import Ticking, Voice

_KILL_SECONDS = 10.0
_TERMINAL_STOPS = (signal.SIGTTIN, signal.SIGTTOU)
_POLL_SECONDS = 0.1
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class StartedScript:
    """The script in its own process group, with its stdout and stderr redirected to oomph's stderr.

    Args:
        argv: the program and its arguments; raises UsageError if it cannot be started.
        environ: the program's environment.
        inherited: the descriptors that the program inherits.
    """

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], inherited: Sequence[int]) -> None:
        self._adopted_before = adopt_orphans()
        self._tail, self._noise, self._voice = Tail(None), StartUpNoise(), Voice()
        self._pump = Pump(2, self._tail, self._noise.take, self._voice)
        self._terminal, self._wants_terminal = Terminal(), False
        self._tripwire = Tripwire()
        self._ended = False
        all_fds, to = (*inherited, self._tripwire.script_fd), self._pump.script_fd
        self._process = spawn(argv, environ, to, all_fds, lambda: None, stdout_fd=to)
        self.pid = self._process.pid
        self._tripwire.set(self.pid)
        self._pump.started()

    @property
    def output_fds(self) -> tuple[int, ...]:
        """The descriptors that become readable when the script writes."""
        return (self._pump.source_fd,) if self._pump.open else ()

    @property
    def returncode(self) -> int | None:
        """The return code of the script's first process, as in `subprocess`; None while it is alive."""
        return returncode_of(self.pid)

    @property
    def output(self) -> bytes:
        """The last part of the script's output."""
        return self._tail.data

    def say(self, text: str) -> None:
        """Write one message on its own line amid the script's output."""
        self._voice.say(text)

    def attend(self, ready: Sequence[int]) -> None:
        """Show the script's new output, and lend it the terminal when it reads from it."""
        if self._pump.source_fd in ready:
            self._pump.carry()
        else:
            self._pump.show(self._noise.stop_waiting())
        if process_group.stop_signal(self.pid) in _TERMINAL_STOPS:
            self._wants_terminal = True
        if self._wants_terminal and self._terminal.lend(self.pid):
            self._wants_terminal = False
            process_group.send(self.pid, signal.SIGCONT)

    def show_the_rest(self, with_noise: bool) -> None:
        """Show the rest of the script's output and, if requested, the lines of native code that were held back."""
        self._pump.drain()
        self._pump.show(self._noise.release() if with_noise else self._noise.stop_waiting())

    def end(self) -> None:
        """Kill every process that the script started, in its group or not, and reap it."""
        if self._ended:
            return
        self._ended = True
        process_group.send(self.pid, signal.SIGKILL)
        left = end_own_strays(os.getpid())
        if left:
            self.say(
                f"the script starts processes as fast as oomph kills them; process {left[0]} is still running: kill it"
            )
        if not process_group.ProcessGroup(self.pid, Patience()).end(_KILL_SECONDS):
            self.say(f"process {self.pid} survived SIGKILL: {process_group.why_it_stays(self.pid)}")
        self._pump.drain()
        if not self._voice.at_line_start:
            self._pump.show(b"\n")
        self._terminal.take_back(restore_modes=True)
        self._terminal.close()
        self._tripwire.remove()
        self._process.poll()
        self._pump.close()
        adopt_orphans(self._adopted_before)


def reach(request: ReachRequest) -> TrainingReached | NotReached:
    """Run the script up to the requested training call, have it examined, and kill the script.

    Raises UsageError if the script cannot be started. Whatever happens, Ctrl-C included, no process of the script is
    left.
    """
    fill_standard()
    pipes = Pipes(request.fit)
    try:
        script = StartedScript(request.command.argv(request.python), _environ(request, pipes), pipes.script_fds)
        with _ended_by_signals(script):
            return _Reaching(request, pipes, script).wait()
    finally:
        pipes.close()


class _Reaching:
    """Waits for one script."""

    def __init__(self, request: ReachRequest, pipes: Pipes, script: StartedScript) -> None:
        self._request, self._pipes, self._script = request, pipes, script
        self._heard = Heard()
        self._guard, self._took = MemoryGuard(script.pid), ""
        self._others, self._hidden = Unjoined(), ""
        self._until = float("inf") if request.limit_seconds is None else time.monotonic() + request.limit_seconds

    def wait(self) -> TrainingReached | NotReached:
        """Wait for the outcome, handling the script's reports and output meanwhile."""
        script = self._script
        with Ticking() as ticking:
            while not self._is_over():
                ready = readable((self._pipes.report_fd, *script.output_fds), _POLL_SECONDS)
                self._hear()
                script.attend(ready)
                if not ready:
                    ticking.tick(self._doing())
        returncode = script.returncode
        if not self._heard.is_over:
            script.show_the_rest(with_noise=may_be_a_crash(returncode))
        script.end()
        if returncode == -signal.SIGINT and not self._heard.is_over:
            raise KeyboardInterrupt  # the script had the terminal and received the Ctrl-C
        if self._took and not self._heard.is_over:
            return ran_out(self._heard, self._took, self._request)
        if self._hidden and not self._heard.is_over:
            return hidden(self._heard, self._hidden)
        return outcome(self._heard, returncode, script.output, self._request)

    def _hear(self) -> None:
        for line in self._pipes.lines():
            before, self._heard = self._heard, after(self._heard, line)
            if len(self._heard.trained) > len(before.trained):
                number, training = len(self._heard.trained), self._heard.trained[-1]
                self._script.say(
                    f"training call {number} ({training.kind} at {training.site}) runs for real because of --fit "
                    f"{self._request.fit}"
                )

    def _is_over(self) -> bool:
        self._took = self._guard.said()
        if self._heard.examining is None and self._heard.joined and self._heard.marks:
            self._hidden = self._others.said()
        if self._took or self._hidden or self._heard.is_over or time.monotonic() >= self._until:
            return True
        if not self._has_ended():
            return False
        self._hear()  # read its final reports
        return self._heard.is_over or self._has_ended()

    def _has_ended(self) -> bool:
        """True if the process that matters has exited: the examining one if there is one, otherwise the first one."""
        if self._heard.examining is not None and self._heard.pid != self._script.pid:
            return not process_group.is_alive(self._heard.pid)
        return self._script.returncode is not None

    def _doing(self) -> str:
        if self._heard.examining is None:
            return "waiting for the script to start training"
        return self._heard.progress or f"examining {self._heard.examining.kind} at {self._heard.examining.site}"


def _environ(request: ReachRequest, pipes: Pipes) -> dict[str, str]:
    """Build the script's environment: oomph's own, without the variables of a surrounding run."""
    ours = (RUN_VARIABLE, OWNER_VARIABLE, REHEARSAL)
    environ = {name: value for name, value in os.environ.items() if name not in ours}
    for name, value in request.environ.items():
        environ.setdefault(name, value)
    put_site_first(environ)
    pipes.handover(request).write(environ)
    return environ


@contextmanager
def _ended_by_signals(script: StartedScript) -> Iterator[None]:
    """Kill the script when the block exits; SIGTERM and SIGHUP, like Ctrl-C, exit the block."""

    def leave(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + signum)

    before: dict[int, Any] = {}
    try:
        # Ignored, because taking the terminal back from the script would stop us.
        before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        for signum in _ENDING_SIGNALS:
            if signal.getsignal(signum) is signal.SIG_DFL:
                before[signum] = signal.signal(signum, leave)
        yield
    finally:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *_ENDING_SIGNALS))
        script.end()
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
