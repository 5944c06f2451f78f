"""Supervises one kernel: starts it, forwards signals, and starts it again on the same connection after a death.

The kernel ends with the supervisor, and both end with the process that started them.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from oomph.errors import OomphError
from oomph.files.opening import OwnFile
from oomph.notebook.kernel.forwarding import KernelForwarding, KernelSignals
from oomph.notebook.kernel.launcher import VARIABLE, kernel_argv, plain_argv
from oomph.notebook.naming import named
from oomph.notebook.run_of_notebook import open_run
from oomph.process import process_identity
from oomph.process.descriptors import fill_standard
from oomph.process.process_group import Terminal, send
from oomph.protocol.entropy import fresh, hash_seed
from oomph.protocol.handover import Guarding
from oomph.protocol.ownership import VARIABLE as OWNER_VARIABLE
from oomph.redaction.redaction import know_secrets
from oomph.run.directory.run_directory import FAILED, RUNNING, RunDirectory
from oomph.run.hang.limits import Hang, Timings, floor_seconds
from oomph.run.hang.watch import Watch
from oomph.run.supervisor.attempt import Attempt, Ended
from oomph.run.supervisor.effects import handover
from oomph.run.supervisor.front import TerminalFront
from oomph.terminal.console import Voice, say
from oomph.terminal.endings import ProcessEnd

if TYPE_CHECKING:
    from oomph.notebook.kernel.inquest import Conclusion, Inquest

_ORPHAN_SECONDS = 0.3
"""The time that the kernel may take to end after SIGTERM once the process that started the supervisor is gone."""


def supervise(words: Sequence[str]) -> NoReturn:
    """Run the kernel until it ends, and end the same way. If no kernel can be started, become one without oomph."""
    supervisor = None
    try:
        fill_standard()
        know_secrets(words, os.environ)
        supervisor = KernelSupervisor(tuple(words))
        returncode = supervisor.supervise()
    except Exception as error:
        if supervisor is not None and supervisor.has_started:
            say(f"{type(error).__name__}: {error}; the kernel ends, since oomph can no longer supervise it")
            os._exit(ProcessEnd(1).exit_code)
        say(f"{type(error).__name__}: {error}; the kernel runs without oomph")
        argv = plain_argv(words)
        os.execv(argv[0], argv)
    _end_as(returncode)


def _end_as(returncode: int) -> NoReturn:
    """End this process the way the kernel ended, so that Jupyter sees the same status."""
    if returncode < 0 and -returncode not in (signal.SIGKILL, signal.SIGSTOP):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the kernel's core is the one to look at
        signal.signal(-returncode, signal.SIG_DFL)
    if returncode < 0:
        os.kill(os.getpid(), -returncode)
    os._exit(ProcessEnd(returncode).exit_code)


def _temporary_folder() -> Path:
    """Create a folder for kernels without a run directory."""
    from tempfile import mkdtemp  # late: most kernels don't need it, and an import here delays them all

    return Path(mkdtemp(prefix="oomph-kernel-"))


class KernelSupervisor:
    """Supervises the kernels of one notebook, one after another, on the same connection.

    Args:
        words: the supervisor's arguments, which it passes on to the kernel.
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words
        self._voice = Voice()
        self._parent = os.getppid()
        self._run = self._open_run()
        self._root = _temporary_folder() if self._run is None else self._run.path
        self._before = 0 if self._run is None else self._run.record.attempts
        self._timings, self._floor = Timings(), floor_seconds()
        self._inquest: Inquest | None = None
        self.has_started = False
        self._orphaned_at: float | None = None
        self._unwritten = ""
        """The death that the next kernel has to report, if the disk was too full to leave it there."""

    def supervise(self) -> int:
        """Run kernels until one ends that is not replaced, and return its return code."""
        with KernelSignals() as signals:
            terminal = Terminal()
            try:
                number = self._before + 1
                while (returncode := self._attempt(number, signals, terminal)) is None:
                    number += 1
            finally:
                terminal.close()
                self._close()
        return returncode

    def _open_run(self) -> RunDirectory | None:
        """Open the notebook's run directory. Return None if that fails: the kernel then works without checkpoints."""
        try:
            return open_run(named({}, os.environ, Path.cwd()), fresh())
        except (OomphError, OSError) as error:
            self._voice.say(f"{error}; fits are guarded, but neither checkpointed nor resumed")
            return None

    def _attempt(self, number: int, signals: KernelSignals, terminal: Terminal) -> int | None:
        """Run one kernel. Return its return code, or None if another one follows."""
        self._note(attempts=number, status=RUNNING, host=process_identity.host(), python=sys.executable)
        watch = Watch(self._timings, self._floor, self._loops)
        attempt, conclusion = self._start(number, signals, terminal, watch), None
        self.has_started = True
        inquest = self._begin_inquest()
        try:
            ended = attempt.wait()
            if inquest is not None:
                conclusion = self._conclude(inquest, ended, attempt.pid, watch.crash_stacks())
            attempt.end_group()
        finally:
            peak_rss_bytes = attempt.close()
            watch.close()
        if inquest is not None and conclusion is not None:
            inquest.close(conclusion, peak_rss_bytes)
            if conclusion.died:
                self._leave_behind(inquest, conclusion)
            if conclusion.restart:
                return None
        if inquest is None or self._orphaned_at is not None or not (ended.stopped or ended.returncode == 0):
            self._note(status=FAILED)  # keep everything for the next kernel
        else:
            self._settle(inquest)
        return ended.returncode

    def _settle(self, inquest: Inquest) -> None:
        """Summarise the run of a kernel that has ended cleanly, and remove what no other kernel needs."""
        if self._run is None:
            return
        try:
            from oomph.notebook.kernel_run import settle

            settle(self._run, inquest.events())
        except Exception as error:
            self._voice.say(f"the end of this run cannot be recorded: {type(error).__name__}: {error}")

    def _start(self, number: int, signals: KernelSignals, terminal: Terminal, watch: Watch) -> Attempt:
        run, environ = self._run, dict(os.environ)
        environ.pop(OWNER_VARIABLE, None)  # a kernel started from a cell of another kernel has its own owner
        environ |= hash_seed("" if run is None else run.record.entropy, environ)
        guarding = Guarding(resumes_edited=named({}, os.environ, self._root).is_named)
        handover(guarding, (), run, number, watch).write(environ)
        environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel ends when this process does
        environ[VARIABLE] = json.dumps({"root": str(self._root), "supervisor": os.getpid(), "death": self._unwritten})
        self._unwritten = ""
        return Attempt(
            kernel_argv(self._words),
            environ,
            TerminalFront(terminal, None if run is None else OwnFile(run.path, f"stderr/{number}.log")),
            signals,
            lock_fd=None if run is None else run.lock_fd,
            watch=watch,
            on_hang=self._tell_hang,
            meanwhile=self._meanwhile,
            complain=self._voice.say,
            forwarding=KernelForwarding,
        )

    def _begin_inquest(self) -> Inquest | None:
        """Open the journal while the kernel starts. Return None if that fails: a dead kernel is then not restarted."""
        try:
            if self._inquest is None:
                from oomph.notebook.kernel.inquest import Inquest

                self._inquest = Inquest(self._root, self._run, self._before)
            self._inquest.begin()
        except Exception as error:
            self._voice.say(f"{type(error).__name__}: {error}; if the kernel dies, it will not be restarted")
            return None
        return self._inquest

    def _conclude(self, inquest: Inquest, ended: Ended, pid: int, stacks: str) -> Conclusion | None:
        try:
            stopped = ended.stopped or self._orphaned_at is not None
            return inquest.conclude(ended, pid, stacks, stopped)
        except Exception as error:
            self._voice.say(f"the kernel's ending could not be examined: {type(error).__name__}: {error}")
            return None

    def _loops(self) -> Sequence[tuple[str, int, int]]:
        return () if self._inquest is None else self._inquest.loops()

    def _meanwhile(self, pid: int) -> None:
        """End the kernel if the process that started the supervisor is gone."""
        if os.getppid() == self._parent:
            return
        now = time.monotonic()
        if self._orphaned_at is None:
            self._orphaned_at = now
            send(pid, signal.SIGTERM)
        elif now > self._orphaned_at + _ORPHAN_SECONDS:
            send(pid, signal.SIGKILL)

    def _leave_behind(self, inquest: Inquest, conclusion: Conclusion) -> None:
        """Say what happened, and leave it for the next kernel to report under the cell in which this one died."""
        self._voice.say(" ".join(conclusion.lines))
        try:
            inquest.leave_behind(conclusion)
        except OSError as error:
            self._unwritten = conclusion.death_in_brief
            if not self._unwritten:
                self._voice.say(f"the cell in which the kernel died cannot be answered: {error.strerror}")

    def _tell_hang(self, hang: Hang) -> None:
        if self._inquest is not None:
            self._inquest.write_hang(hang)
        self._voice.say(hang.in_words())

    def _note(self, **changes: Any) -> None:
        """Update run.json. A full disk or a deleted folder must not end the kernel."""
        try:
            if self._run is not None:
                self._run.update(**changes)
        except OSError as error:
            self._voice.say(f"run.json cannot be written: {error.strerror}")

    def _close(self) -> None:
        if self._run is None:
            from shutil import rmtree

            rmtree(self._root, ignore_errors=True)
        else:
            self._run.close()
