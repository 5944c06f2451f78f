"""Starts a script, waits until its training has been examined, and ends it. Runs in oomph's process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from oomph.process import process_group
from oomph.process.descriptors import fill_standard, readable
from oomph.protocol.handover import VARIABLE as RUN_VARIABLE
from oomph.protocol.injection import VARIABLE as REHEARSAL_VARIABLE
from oomph.protocol.ownership import VARIABLE as OWNER_VARIABLE
from oomph.reach.ending import hidden, may_be_a_crash, outcome, ran_out
from oomph.reach.heard import Heard, after
from oomph.reach.memory_guard import MemoryGuard
from oomph.reach.pipes import Pipes
from oomph.reach.request import NotReached, ReachRequest, TrainingReached
from oomph.reach.started_script import StartedScript
from oomph.reach.unjoined import Unjoined
from oomph.run.supervisor.effects import put_site_first
from oomph.terminal.ticking import Ticking

_POLL_SECONDS = 0.1
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def reach(request: ReachRequest) -> TrainingReached | NotReached:
    """Run the script up to the training that is asked for, have it examined, and end the script.

    Raises UsageError if it cannot be started. Whatever happens, Ctrl-C included, no process of the script is left.
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
        """Attend to the script until there is an outcome."""
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
            raise KeyboardInterrupt  # Ctrl-C went to the script, which had the terminal
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
                    f"training {number} ({training.kind} at {training.site}) runs for real: --fit {self._request.fit}"
                )

    def _is_over(self) -> bool:
        self._took = self._guard.said()
        if self._heard.examining is None and self._heard.joined and self._heard.marks:
            self._hidden = self._others.said()
        if self._took or self._hidden or self._heard.is_over or time.monotonic() >= self._until:
            return True
        if not self._has_ended():
            return False
        self._hear()  # what it reported last
        return self._heard.is_over or self._has_ended()

    def _has_ended(self) -> bool:
        """True if the process that matters has ended: the one that examines, or else the first one."""
        if self._heard.examining is not None and self._heard.pid != self._script.pid:
            return not process_group.is_alive(self._heard.pid)
        return self._script.returncode is not None

    def _doing(self) -> str:
        if self._heard.examining is None:
            return "waiting for the script to begin its training"
        return self._heard.progress or f"examining {self._heard.examining.kind} at {self._heard.examining.site}"


def _environ(request: ReachRequest, pipes: Pipes) -> dict[str, str]:
    """The environment of the script: ours, without the variables of a run around us."""
    ours = (RUN_VARIABLE, OWNER_VARIABLE, REHEARSAL_VARIABLE)
    environ = {name: value for name, value in os.environ.items() if name not in ours}
    for name, value in request.environ.items():
        environ.setdefault(name, value)
    put_site_first(environ)
    pipes.handover(request).write(environ)
    return environ


@contextmanager
def _ended_by_signals(script: StartedScript) -> Iterator[None]:
    """End the script at the end of the block; SIGTERM and SIGHUP, like Ctrl-C, end the block."""

    def leave(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + signum)

    before: dict[int, Any] = {}
    try:
        # Ignored: taking the terminal back from the script would stop us.
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
