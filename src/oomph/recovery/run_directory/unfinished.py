"""Whether a run is over, for those who look at it from outside, and how to go on with one that is not."""

from __future__ import annotations

import fcntl
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.recovery.posix.process_identity import ProcessIdentity
from oomph.recovery.report.next_command import command_to_go_on
from oomph.recovery.run_directory.run_directory import PREEMPTED, RUNNING, read_record
from oomph.run_files import open_own


@dataclass(frozen=True)
class Unfinished:
    """A run that has not come to an end of which its supervisor could tell."""

    going_on: bool
    """Whether somebody still holds its lock; if not, the supervisor was killed, or the machine went down."""
    command: str
    """Goes on with it."""
    preempted: bool = False
    """Whether it has come to an end in order, and is to be started again elsewhere or later."""

    @property
    def state(self) -> str:
        """In words, after what was found in it."""
        if self.going_on:
            return "; the run is still going on"
        if self.preempted:
            return "; the run has not finished: its machine was taken away, or could not go on"
        return "; the run has not finished: its oomph was ended from outside, as by kill -9 or a power failure"

    @property
    def following(self) -> str:
        """What to do next."""
        when = "once it has ended, if it has not finished" if self.going_on else "goes on from its last checkpoint"
        return f"Next: {self.command}  ({when})"

    def as_document(self) -> dict[str, Any]:
        """For `oomph explain RUN --json`."""
        state = "going-on" if self.going_on else PREEMPTED if self.preempted else "unfinished"
        return {"run": {"state": state, "next": self.command}}


def unfinished(run_dir: Path) -> Unfinished | None:
    """What there is to say of a run that is not over; None of one that is, or that has no record."""
    record = read_record(run_dir)
    if record is None or record.status not in (RUNNING, PREEMPTED):
        return None
    there = Path(record.cwd) == Path.cwd()
    command = command_to_go_on(record.options, record.command, str(run_dir if there else run_dir.resolve()))
    command = command if there else f"cd {shlex.quote(record.cwd)} && {command}"
    return Unfinished(_held(run_dir), command, record.status == PREEMPTED)


def _held(run_dir: Path) -> bool:
    """Whether a process has the lock of a run; it is asked for only as long as it takes to be refused."""
    try:
        fd = open_own(run_dir, "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        holder = ProcessIdentity.from_text(os.pread(fd, 512, 0).decode(errors="replace"))
        return holder is not None and holder.lives
    finally:
        os.close(fd)
    return False
