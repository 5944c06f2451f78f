"""Finds out what ended a kernel, decides what follows, and keeps the journal of the notebook.

Imported only while the first kernel is already starting, so as not to delay it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.explain.reading.kernel_log import KernelLog, that_concern
from oomph.journal.journal import Event
from oomph.notebook.kernel.death import Death, leave_behind, told
from oomph.notebook.kernel.policy import CLEAN, KernelEnd, after_end, deaths_without_progress
from oomph.notebook.kernel.record import KernelRecord, read_record_of
from oomph.process.available_memory import oom_kills
from oomph.protocol.progress import Progress
from oomph.run.directory.run_directory import RunDirectory
from oomph.run.hang.limits import Hang
from oomph.run.policy.decide import Finish, Restart
from oomph.run.policy.examination import Trail, examine
from oomph.run.policy.ladder import Conditions
from oomph.run.supervisor.attempt import Ended
from oomph.run.supervisor.chronicle import Chronicle, Judged
from oomph.run.supervisor.settings import MachineAtStart

_MOST_IN_ENVIRONMENT = 64 << 10
"""The longest text to pass in an environment variable; Linux allows 128 KiB (execve(2))."""


@dataclass(frozen=True)
class Conclusion:
    """The cause of a kernel's end, and what follows."""

    judged: Judged
    lines: tuple[str, ...]
    """The diagnosis, at most three lines."""
    record: KernelRecord | None
    """The record of what the kernel executed, or None if it was never ready."""

    died: bool
    """True if the kernel ended on its own, and not as `exit` ends it."""

    @property
    def restart(self) -> bool:
        """True if another kernel follows."""
        return isinstance(self.judged.action, Restart)

    @property
    def death(self) -> Death | None:
        """The death that the next kernel reports, or None if the kernel was never ready.

        If Jupyter starts that kernel, it has told its clients that their requests are lost, so that none is answered.
        """
        record = self.record
        if record is None:
            return None
        if not self.restart:
            return Death(self.lines, 1, None, ())
        return Death(self.lines, record.next_count, record.running, record.queued)

    @property
    def death_in_brief(self) -> str:
        """The death as text for an environment variable, or an empty string if it is too long for one."""
        text = "" if self.death is None else self.death.to_json().decode()
        return text if len(text) <= _MOST_IN_ENVIRONMENT else ""


class Inquest:
    """Keeps the journal of one notebook, and examines how its kernels end.

    Args:
        root: the folder through which a dead kernel's requests reach the next one: the run directory, if there is one.
        run: the run directory, or None if there is none.
        attempts: the number of kernels that the notebook has had so far.
    """

    def __init__(self, root: Path, run: RunDirectory | None, attempts: int) -> None:
        self._root, self._name = root, "" if run is None else run.record.command[0]
        self._chronicle = Chronicle(None if run is None else run.path, attempts)
        self._deaths, self._steps = 0, 0
        if attempts:
            self._chronicle.close_lost_attempt()

    def begin(self) -> None:
        """Open the next kernel's journal, and note where Linux's kernel log and OOM kill counter are now."""
        self._chronicle.begin_attempt((self._name,), sys.executable, MachineAtStart())
        self._log, self._kills = KernelLog(), oom_kills()

    def loops(self) -> Sequence[tuple[str, int, int]]:
        """Return the training loops that the kernel has reported."""
        return self._chronicle.script.loops()

    def events(self) -> Sequence[Event]:
        """Return the events of the run so far."""
        return self._chronicle.events()

    def write_hang(self, hang: Hang) -> None:
        """Record a hang before the kernel is ended."""
        self._chronicle.write_hang(hang)

    def conclude(self, ended: Ended, pid: int, stacks: str, stopped: bool) -> Conclusion:
        """Examine how a kernel ended, and decide what follows.

        Args:
            ended: the end of the kernel's process.
            pid: the PID of that process.
            stacks: the Python stacks that it wrote if it crashed.
            stopped: True if the kernel was asked to end.
        """
        record = read_record_of(self._root, pid)
        now, progress = oom_kills(), self._chronicle.script.progress()
        kills = None if now is None or self._kills is None else now - self._kills
        logged = that_concern(self._log.read(), (pid,), ())
        self._log.close()
        trail = Trail(
            ended.returncode,
            kills,
            ended.stderr,
            stopped,
            self._chronicle.script.events(),
            progress,
            asked=ended.asked,
            hung=ended.hang is not None,
            elsewhere="\n".join([stacks, *logged]),
        )
        names, ending = examine(trail)
        cause = names[0].title if names else ""
        action = self._decide(ended.returncode, stopped, record, ending.steps)
        judged = Judged(ended, names, ending, Conditions(), action, kills, logged)
        lines = told(ended.returncode, cause, self._interrupted(progress), record, stacks, ended.hang is not None)
        return Conclusion(judged, lines, record, died=not stopped and ended.returncode not in CLEAN)

    def _interrupted(self, progress: Progress | None) -> Progress | None:
        """Return the progress if a fit had not finished."""
        from oomph.notebook.kernel_run import unfinished  # late: it would delay the kernel's start

        return progress if unfinished(self.events()) else None

    def leave_behind(self, conclusion: Conclusion) -> None:
        """Leave the death for the next kernel to report under the interrupted cell. Raises OSError if that fails."""
        if conclusion.death is not None:
            leave_behind(self._root, conclusion.death)

    def _decide(self, returncode: int, stopped: bool, record: KernelRecord | None, steps: int) -> Finish | Restart:
        executed = record is not None and record.done > 0
        end = KernelEnd(returncode, stopped, ready=record is not None, progress=executed or steps > self._steps)
        self._steps = max(self._steps, steps)
        self._deaths = deaths_without_progress(end, self._deaths)
        return after_end(end, self._deaths)

    def close(self, conclusion: Conclusion, peak_rss_bytes: int) -> None:
        """Write the kernel's end to its journal. The decision is left out, as it follows from the end (`policy`)."""
        self._chronicle.write_ending(conclusion.judged, peak_rss_bytes)
        action = conclusion.judged.action
        self._chronicle.close_attempt(action.exit_code if isinstance(action, Finish) else None)
