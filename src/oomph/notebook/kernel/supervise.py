"""Supervises one kernel: starts it, forwards signals, and starts it again on the same connection after a death.

The kernel ends with the supervisor, and both end with the process that started them.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from oomph.errors import OomphError
from oomph.files.opening import OwnFile
from oomph.notebook.kernel.autopsy import Autopsy, CauseOfDeath
from oomph.notebook.kernel.death import Death, leave_behind, told
from oomph.notebook.kernel.forwarding import KernelForwarding, KernelSignals
from oomph.notebook.kernel.launcher import VARIABLE, kernel_argv, launcher_of, plain_argv
from oomph.notebook.kernel.place import folder_of_notebook, open_run
from oomph.notebook.kernel.policy import KernelEnd, after_end, deaths_without_progress
from oomph.notebook.kernel.record import KernelRecord, read_record_of
from oomph.process.descriptors import fill_standard
from oomph.process.process_group import Patience, ProcessGroup, Terminal, send
from oomph.redaction.redaction import know_secrets
from oomph.run.directory.run_directory import FAILED, KEPT, RUNNING, RunDirectory
from oomph.run.hang.limits import Hang, Timings, floor_seconds
from oomph.run.hang.watch import Watch
from oomph.run.policy.decide import Action, Ledger, Restart
from oomph.run.policy.ladder import Conditions
from oomph.run.supervisor.attempt import Attempt, Ended
from oomph.run.supervisor.chronicle import Chronicle, Judged
from oomph.run.supervisor.effects import handover, surrounding
from oomph.run.supervisor.front import TerminalFront
from oomph.run.supervisor.settings import MachineAtStart, Settings
from oomph.run.supervisor.stop_requests import Signals
from oomph.terminal.console import Voice, say
from oomph.terminal.endings import ProcessEnd

_ORPHAN_SECONDS = 0.3
"""How long the kernel may take to end after SIGTERM once the process that started the supervisor is gone."""


def supervise(words: Sequence[str]) -> NoReturn:
    """Run the kernel until it is over, and end as it ended. If that fails at the start, run it without oomph."""
    try:
        fill_standard()
        know_secrets(words, os.environ)
        supervisor = KernelSupervisor(tuple(words))
    except Exception as error:
        say(f"{type(error).__name__}: {error}; the kernel runs without oomph")
        argv = plain_argv(words)
        os.execv(argv[0], argv)
    _end_as(supervisor.supervise())


def _end_as(returncode: int) -> NoReturn:
    """End this process as the kernel ended, so that Jupyter sees the same status."""
    if returncode < 0 and -returncode not in (signal.SIGKILL, signal.SIGSTOP):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the kernel's core is the one to look at
        signal.signal(-returncode, signal.SIG_DFL)
    if returncode < 0:
        os.kill(os.getpid(), -returncode)
    os._exit(ProcessEnd(returncode).exit_code)


class KernelSupervisor:
    """Supervises the kernels of one notebook, one after another, on the same connection.

    Args:
        words: the supervisor's arguments, which the kernel receives.
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words
        self._voice = Voice()
        self._parent = os.getppid()
        self._run = self._open_run()
        self._root = Path(tempfile.mkdtemp(prefix="oomph-kernel-")) if self._run is None else self._run.path
        self._run_dir = None if self._run is None else self._run.path
        self._chronicle = Chronicle(self._run_dir, 0 if self._run is None else self._run.record.attempts)
        self._timings, self._floor = Timings(), floor_seconds()
        self._forwarding: KernelForwarding | None = None
        self._orphaned_at: float | None = None
        self._deaths, self._steps = 0, 0

    def supervise(self) -> int:
        """Run kernels until one ends that is not to be replaced, and return its return code."""
        with KernelSignals() as signals:
            terminal = Terminal()
            try:
                end = self._attempt(signals, terminal)
                while end is None:
                    end = self._attempt(signals, terminal)
            finally:
                terminal.close()
                self._close()
        return end

    def _open_run(self) -> RunDirectory | None:
        """Open the notebook's run directory. Return None if that fails: the kernel works without checkpoints."""
        command = ("-m", launcher_of(self._words)[0])
        try:
            return open_run(folder_of_notebook(os.environ, Path.cwd()), command, sys.executable)
        except (OomphError, OSError) as error:
            self._voice.say(f"{error}; this kernel's training is guarded, but not saved")
            return None

    def _attempt(self, signals: KernelSignals, terminal: Terminal) -> int | None:
        """Run one kernel. Return its return code, or None if another one follows it."""
        self._chronicle.begin_attempt(("-m", launcher_of(self._words)[0]), sys.executable, MachineAtStart())
        self._note(attempts=self._chronicle.attempt, status=RUNNING)
        watch, autopsy = Watch(self._timings, self._floor, self._chronicle.loops), Autopsy()
        attempt = self._start(signals, terminal, watch)
        try:
            ended = attempt.wait()
            record = read_record_of(self._root, attempt.pid)
            found = autopsy.examine(ended, attempt.pid, self._chronicle, watch.crash_stacks())
            action = self._decide(ended, record)
            attempt.end_group()
        finally:
            peak_rss_bytes = attempt.close()
            watch.close()
            autopsy.close()
        judged = Judged(
            ended, found.names, found.ending, Conditions(), action, found.oom_kills, found.kernel_lines
        )  # fmt: skip
        self._chronicle.write_end(judged, peak_rss_bytes, frozenset(), Ledger())
        if not isinstance(action, Restart):
            self._note(status=KEPT if ended.returncode == 0 else FAILED)
            return ended.returncode
        self._leave_behind(ended, found, record)
        return None

    def _start(self, signals: KernelSignals, terminal: Terminal, watch: Watch) -> Attempt:
        number, settings = self._chronicle.attempt, Settings()
        entropy = "" if self._run is None else self._run.record.entropy
        environ = surrounding(settings, (), (), entropy)
        handover(settings, (), self._run, number, watch).write(environ)
        environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel ends with its parent
        environ[VARIABLE] = json.dumps({"root": str(self._root), "supervisor": os.getpid()})
        log = None if self._run_dir is None else OwnFile(self._run_dir, f"stderr/{number}.log")
        return Attempt(
            kernel_argv(self._words),
            environ,
            TerminalFront(terminal, log, None, self._voice),
            signals,
            lock_fd=None if self._run is None else self._run.lock_fd,
            patience=Patience(),
            watch=watch,
            on_hang=self._tell_hang,
            meanwhile=self._meanwhile,
            complain=self._voice.say,
            forwarding=self._forward,
        )

    def _forward(
        self, signals: Signals, group: ProcessGroup, patience: Patience, watch: Watch | None, since: float
    ) -> KernelForwarding:
        self._forwarding = KernelForwarding(signals, group, patience, watch, since, self._is_ready)
        return self._forwarding

    def _is_ready(self, pid: int) -> bool:
        return read_record_of(self._root, pid) is not None

    def _meanwhile(self, pid: int) -> None:
        """Send an interrupt that was held, and end the kernel if the process that started the supervisor is gone."""
        if self._forwarding is not None:
            self._forwarding.attend()
        if os.getppid() == self._parent:
            return
        now = time.monotonic()
        if self._orphaned_at is None:
            self._orphaned_at = now
            send(pid, signal.SIGTERM)
        elif now > self._orphaned_at + _ORPHAN_SECONDS:
            send(pid, signal.SIGKILL)

    def _decide(self, ended: Ended, record: KernelRecord | None) -> Action:
        progress = self._chronicle.progress()
        steps = 0 if progress is None else progress.steps
        end = KernelEnd(
            ended.returncode,
            stopped=ended.stopped or self._orphaned_at is not None,
            ready=record is not None,
            progress=steps > self._steps or (record is not None and record.done > 0),
        )
        self._steps = max(self._steps, steps)
        self._deaths = deaths_without_progress(end, self._deaths)
        return after_end(end, self._deaths)

    def _leave_behind(self, ended: Ended, found: CauseOfDeath, record: KernelRecord | None) -> None:
        """Say what happened, and leave it for the next kernel to say under the cell that died."""
        lines = told(ended.returncode, found.cause, self._chronicle.progress(), record, ended.hang is not None)
        self._voice.say(" ".join(lines))
        if record is None:
            return
        try:
            leave_behind(self._root, Death(lines, record.next_count, record.running, record.queued))
        except OSError as error:
            self._voice.say(f"the cell that died cannot be answered: {error.strerror}")

    def _tell_hang(self, hang: Hang) -> None:
        self._chronicle.write_hang(hang)
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
            shutil.rmtree(self._root, ignore_errors=True)
        else:
            self._run.close()
