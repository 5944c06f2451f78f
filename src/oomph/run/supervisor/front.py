"""Connects a supervised process to a terminal or pipes through a front, and rewinds stdin for the next attempt.

Currently, a front is a terminal, or the pipes that replace it. It provides the other end of the script's stderr, passes
on what was written there, and follows the shell's job control.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from oomph.files.opening import OwnFile
from oomph.process import process_group
from oomph.process.process_group import ProcessGroup, Terminal, stop_self
from oomph.process.stderr import Pump, Tail
from oomph.protocol.progress import Phase
from oomph.terminal.console import Voice

if TYPE_CHECKING:
    from oomph.run.supervisor.native_reports import NativeReports

_TERMINAL_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Front(Protocol):
    """The interface that connects a supervised process to the outside, such as a terminal."""

    script_fd: int
    """The descriptor that becomes the stderr of the process."""
    is_shown: bool
    """True if the process has oomph's own stdin and stdout. Otherwise, its stdout is its stderr."""

    def started(self) -> None:
        """Record that the process now has its end of the stream."""

    def sources(self) -> list[int]:
        """Return the descriptors that become readable when there is something to pass on."""

    def carry(self, ready: Collection[int], phase: Phase | None) -> None:
        """Pass on what was written if one of the ready descriptors is a source of this front."""

    def drain(self) -> None:
        """Pass on what has been written so far, without waiting for more."""

    def obey(self, signum: int) -> None:
        """Handle a signal that concerns the connection: SIGTSTP, SIGCONT or SIGWINCH."""

    def follow_stops(self, pid: int, group: ProcessGroup) -> None:
        """Stop as well if the process was stopped from the terminal."""

    def end(self, killed: bool) -> bytes:
        """Show the rest of stderr once the process has exited, and return the last part of its output."""

    def leave_rest(self) -> None:
        """Keep passing on the output of processes that outlive the script."""

    def close(self) -> None:
        """Release the connection."""


class TerminalFront:
    """The user's terminal, or the pipes that replace it. Passes stderr through, and lets Ctrl-Z stop both processes."""

    is_shown = True

    def __init__(
        self,
        terminal: Terminal,
        log: OwnFile | None = None,
        reports: NativeReports | None = None,
        voice: Voice | None = None,
    ) -> None:
        """Keep the last part of stderr in `log`. `reports` holds back TensorFlow's reports of failed allocations."""
        self._terminal, self._reports, self._voice = terminal, reports, voice or Voice()
        self._tail = Tail(log)
        self._pump = Pump(2, self._tail, bytes if reports is None else reports.take, self._voice)
        self._suspending = False
        self.script_fd = self._pump.script_fd

    def started(self) -> None:
        """Close the supervisor's copy of the script's end."""
        self._pump.started()

    def sources(self) -> list[int]:
        """Return the descriptor of the script's stderr, as long as any process has it open."""
        return [self._pump.source_fd] if self._pump.open else []

    def carry(self, ready: Collection[int], phase: Phase | None) -> None:
        """Pass stderr on, except for reports that are held back."""
        is_ready = self._pump.source_fd in ready
        if is_ready:
            self._pump.carry()
        if self._reports is not None:
            self._pump.show(self._reports.attend(phase, quiet=not is_ready))

    def drain(self) -> None:
        """Pass on what has been written so far."""
        self._pump.drain()

    def obey(self, signum: int) -> None:
        """Remember that Ctrl-Z was pressed, or resize the script's stderr when the terminal is resized."""
        if signum == signal.SIGWINCH:
            self._pump.follow_window()
        else:
            self._suspending = signum == signal.SIGTSTP

    def follow_stops(self, pid: int, group: ProcessGroup) -> None:
        """Lend the terminal to a script that was stopped for using it. If that fails, stop too, as a shell would."""
        stop = process_group.stop_signal(pid)
        if stop not in _TERMINAL_STOPS:
            return
        wants_terminal = stop != signal.SIGTSTP
        if wants_terminal and self._terminal.lend(pid):
            group.send(signal.SIGCONT)
        elif wants_terminal or self._suspending or self._terminal.lent:
            self._stop_together(pid, group, wants_terminal or self._terminal.lent)

    def _stop_together(self, pid: int, group: ProcessGroup, wants_terminal: bool) -> None:
        self._terminal.take_back()
        self._suspending = False
        stop_self()
        if wants_terminal and not self._terminal.lend(pid):
            time.sleep(0.5)  # continued in the background: it will read and be stopped again
        group.send(signal.SIGCONT)

    def end(self, killed: bool) -> bytes:
        """Show the rest of stderr, and take back the terminal. An error here must not lose the exit code."""
        try:
            self._pump.drain()
            if self._reports is not None:
                self._pump.show(self._reports.end())
        except Exception as error:
            self._voice.say(f"the end of stderr could not be shown: {type(error).__name__}: {error}")
        self._terminal.take_back(restore_modes=killed)
        return self._tail.data

    def leave_rest(self) -> None:
        """Let the script's remaining processes continue on their own, and keep forwarding their stderr."""
        if self._pump.open:
            self._pump.carry_in_background()

    def close(self) -> None:
        """Close the stream."""
        self._pump.close()


class LogFront:
    """A log that receives everything that a worker prints, while another worker has the terminal."""

    is_shown = False

    def __init__(self, log: OwnFile | None, show: Callable[[bytes], bytes] | None = None) -> None:
        """Keep the last part of the output in `log`, or only in memory. `show` gets each chunk, and returns b""."""
        self._null_fd = os.open(os.devnull, os.O_WRONLY)
        self._tail = Tail(log)
        self._pump = Pump(self._null_fd, self._tail, show or (lambda data: b""))
        self.script_fd = self._pump.script_fd

    def started(self) -> None:
        """Close the supervisor's copy of the worker's end."""
        self._pump.started()

    def sources(self) -> list[int]:
        """Return the descriptor of the worker's output, as long as any process has it open."""
        return [self._pump.source_fd] if self._pump.open else []

    def carry(self, ready: Collection[int], phase: Phase | None) -> None:
        """Write what the worker has printed to the log."""
        if self._pump.source_fd in ready:
            self._pump.carry()

    def drain(self) -> None:
        """Write everything that the worker has printed so far."""
        self._pump.drain()

    def obey(self, signum: int) -> None:
        """Ignore signals that concern the terminal."""

    def follow_stops(self, pid: int, group: ProcessGroup) -> None:
        """Ignore stops, since the worker cannot read from the terminal."""

    def end(self, killed: bool) -> bytes:
        """Write the rest of the output, and return its last part."""
        self._pump.drain()
        return self._tail.data

    def leave_rest(self) -> None:
        """Keep reading the output of processes that outlive the worker, so that SIGPIPE does not kill them."""
        if self._pump.open:
            self._pump.carry_in_background()

    def close(self) -> None:
        """Close the log."""
        self._pump.close()
        os.close(self._null_fd)


_STDIN = 0


class StandardInput:
    """Remembers the position in standard input at the start of the run, and restores it."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._told = False
        try:
            if stat.S_ISREG(os.fstat(_STDIN).st_mode):
                self._offset = os.lseek(_STDIN, 0, os.SEEK_CUR)
        except OSError:
            pass  # closed

    def rewind(self) -> str:
        """Rewind for the next attempt, or return the message to print if that is impossible."""
        if self._offset is not None:
            os.lseek(_STDIN, self._offset, os.SEEK_SET)
            return ""
        if self._told or not _is_pipe():
            return ""
        self._told = True
        return "standard input is a pipe: the next attempt cannot reread what the last one has read"


def _is_pipe() -> bool:
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
