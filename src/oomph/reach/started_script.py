"""The started script as seen by the parent: its output, process group, terminal and end."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from oomph.process import process_group
from oomph.process.child import returncode_of
from oomph.process.isolation.descendants import adopt_orphans, end_own_strays
from oomph.process.process_group import Patience
from oomph.process.spawn import Tripwire, spawn
from oomph.process.stderr import Pump, Tail
from oomph.process.terminal import Terminal
from oomph.reach.start_up_noise import StartUpNoise
from oomph.terminal.console import Voice

_KILL_SECONDS = 10.0
_TERMINAL_STOPS = (signal.SIGTTIN, signal.SIGTTOU)


class StartedScript:
    """The script in a process group of its own, with its stdout and stderr on our stderr.

    Args:
        argv: the program and its arguments; raises UsageError if it cannot be started.
        environ: its environment.
        inherited: descriptors that it inherits.
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
        """The return code of its first process, as `subprocess` has it; None while it lives."""
        return returncode_of(self.pid)

    @property
    def output(self) -> bytes:
        """The last part of the script's output."""
        return self._tail.data

    def say(self, text: str) -> None:
        """Write one message on a line of its own, amid the script's output."""
        self._voice.say(text)

    def attend(self, ready: Sequence[int]) -> None:
        """Show what the script has written, and lend it the terminal when it reads from the terminal."""
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
        """Show the rest of the script's output and, if asked, the lines of native code that were held back."""
        self._pump.drain()
        self._pump.show(self._noise.release() if with_noise else self._noise.stop_waiting())

    def end(self) -> None:
        """Kill every process that the script has started, in its group or not, and reap it."""
        if self._ended:
            return
        self._ended = True
        process_group.send(self.pid, signal.SIGKILL)
        left = end_own_strays(os.getpid())
        if left:
            self.say(f"the script starts processes as fast as they are ended; process {left[0]} is still there: end it")
        if not process_group.ProcessGroup(self.pid, Patience()).end(_KILL_SECONDS):
            self.say(f"process {self.pid} has survived SIGKILL: {process_group.why_it_stays(self.pid)}")
        self._pump.drain()
        if not self._voice.at_line_start:
            self._pump.show(b"\n")
        self._terminal.take_back(restore_modes=True)
        self._terminal.close()
        self._tripwire.remove()
        self._process.poll()
        self._pump.close()
        adopt_orphans(self._adopted_before)
