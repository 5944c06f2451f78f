"""Finds a folder's unfinished runs, the state of each as seen from outside, and the command that resumes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from oomph.files.oomph_folder import run_of
from oomph.files.opening import open_own
from oomph.journal.journal import read_journal
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory.lease import holder_in, is_held
from oomph.run.directory.run_directory import (
    DEFAULT_PARENT,
    FAILED,
    FINISHED,
    KEPT,
    PREEMPTED,
    RUNNING,
    RunRecord,
    read_record,
)
from oomph.run.directory.search import newest_first
from oomph.run.directory.trust import why_not_above, why_not_trusted
from oomph.run.report.attempts import failed_first, stopped
from oomph.run.report.next_command import command_to_go_on, names_read
from oomph.terminal.console import say


class StoredRun(NamedTuple):
    """A run directory and the contents of its run.json."""

    path: Path
    record: RunRecord


def unfinished_runs(cwd: str, runs_dir: Path | None = None) -> list[StoredRun]:
    """Return the runs that were started in a folder and have not finished, newest first.

    Args:
        runs_dir: another folder whose `.oomph` may hold such runs.
    """
    places = dict.fromkeys(Path(cwd) / folder / DEFAULT_PARENT for folder in (Path(), runs_dir or Path()))
    found = newest_first(entry for place in places for entry in _entries(place))
    stored = [StoredRun(path, record) for path in found if (record := read_record(path)) is not None]
    return [run for run in stored if run.record.cwd == cwd and run.record.status != FINISHED]


def first_trusted(runs: Iterable[StoredRun]) -> StoredRun | None:
    """Return the first run that no other user can have tampered with, and report why each run before it is skipped."""
    for run in runs:
        stranger = why_not_trusted(run.path)
        if stranger is None:
            return run
        say(f"{run.path} cannot be resumed: {stranger}")
    return None


def _entries(parent: Path) -> list[Path]:
    """Return the entries of `parent`, or warn and return none if it belongs to another user or is unreadable.

    Links are among them, so that the user learns why such a run is not resumed.
    """
    try:
        found = list(parent.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        say(f"cannot resume a run in {parent}: {error.strerror}")
        return []
    stranger = why_not_above(parent / "run")
    if stranger is not None and found:
        say(f"cannot resume a run: {stranger}")
        return []
    return found


STOPPED = "stopped"
"""The state of a run that someone stopped. Its record says "failed"."""
UNFINISHED = "unfinished"
"""The state of a run that was killed from outside, for example by kill -9. Its record still says "running"."""


@dataclass(frozen=True)
class Unfinished:
    """A run that has not finished, and that neither its script nor oomph ended for good."""

    going_on: bool
    """True if a process still holds the run's lock. If not, the supervisor was killed, or the machine went down."""
    command: str
    """The command that resumes the run."""
    preempted: bool = False
    """True if the run shut down cleanly, to be restarted elsewhere or later."""
    worker_failed: bool = False
    """True if it did so because one of its workers had failed."""
    stopped: bool = False
    """True if someone stopped the run, for example with Ctrl-C; the story says how."""
    kept: bool = False
    """True if the script was interrupted, or finished after training less than its checkpoints contain."""
    saved: bool = True
    """True if there is a checkpoint to resume from."""
    reads: tuple[str, ...] = ()
    """The environment variables that the script read and found set."""

    @property
    def name(self) -> str:
        """The state as a single machine-readable word."""
        if self.going_on:
            return "going-on"
        if self.preempted or self.kept:
            return PREEMPTED if self.preempted else KEPT
        return STOPPED if self.stopped else UNFINISHED

    @property
    def state(self) -> str:
        """The state as text, to be printed after the number of faults found in the run."""
        if self.going_on:
            return "; the run is still in progress"
        if self.preempted and self.worker_failed:
            return "; the run has not finished: all workers have to start again"
        if self.preempted:
            return "; the run has not finished: its machine was reclaimed, or could not continue"
        if self.kept:
            return "; it was interrupted, or trained less than its checkpoints contain, which are kept"
        if self.stopped:
            return ""
        return "; the run has not finished: oomph was terminated from outside, perhaps by kill -9 or a power failure"

    @property
    def following(self) -> str:
        """The line that suggests the next command."""
        anew = "no checkpoint was taken: starts from the beginning"
        when = "resumes from its last checkpoint" if self.saved else anew
        if self.going_on:
            when = "once the run stops, unless it finishes"
        reads = f"; the script reads {', '.join(self.reads)} from its environment" if self.reads else ""
        return f"Next: {self.command}  ({when}{reads})"

    def as_document(self) -> dict[str, Any]:
        """Return the state as JSON, for `oomph explain RUN --json`."""
        return {"run": {"state": self.name, "next": self.command}}


def unfinished(run_dir: Path, in_full: bool = False) -> Unfinished | None:
    """Return the state of a run that was stopped or has not finished, or None for other runs or without a record.

    Args:
        in_full: also collect the variables that the script reads, which means reading a journal that may be long.
    """
    run_dir = run_of(run_dir)  # that of one worker cannot be resumed
    record = read_record(run_dir)
    if record is None or record.status not in (RUNNING, PREEMPTED, FAILED, KEPT):
        return None
    was_stopped = record.status == FAILED
    events = read_journal(run_dir, record.attempts) if was_stopped or in_full else []
    if was_stopped and not stopped(events):
        return None
    there = Path(record.cwd) == Path.cwd()
    command = command_to_go_on(record.options, record.command, str(run_dir if there else run_dir.resolve()))
    command = command if there else f"cd {shlex.quote(record.cwd)} && {command}"
    return Unfinished(
        going_on=is_held(run_dir),
        command=command,
        preempted=record.status == PREEMPTED,
        worker_failed=failed_first(events) is not None,
        stopped=was_stopped,
        kept=record.status == KEPT,
        saved=is_saved(run_dir),
        reads=names_read(events),
    )


def is_saved(run_dir: Path) -> bool:
    """True if a run has a checkpoint to resume from."""
    return any(any(run_dir.glob(f"checkpoints/{kind}-*")) for kind in ("step", "finished"))


def holder_of(run_dir: Path) -> ProcessIdentity | None:
    """Return the process that last held a run's lock, or None if the lock names none."""
    try:
        fd = open_own(run_dir, "lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        holder = holder_in(fd)
    finally:
        os.close(fd)
    return None if holder is None else holder.process
