"""The run of a notebook that nobody supervises: its directory, in which each kernel process is one attempt.

The kernel writes what the supervisor writes for a script. Of a kernel that died, the next one records the end. A run is
finished when its kernel has ended, or oomph was disabled, with no fit left to resume; the next kernel starts a new run.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from oomph.checkpoint.store import CheckpointStore
from oomph.checkpoint.store import foreign_format as foreign_checkpoints
from oomph.errors import RunDirectoryError
from oomph.files.opening import is_own_folder, replace_own
from oomph.files.user_code import PACKAGE
from oomph.journal.events import AttemptEnded, CheckpointSkipped, FitFinished, FitStarted, Resumed
from oomph.journal.journal import Event, last
from oomph.journal.journal import foreign_format as foreign_journal
from oomph.notebook.naming import Notebook
from oomph.process import process_identity
from oomph.protocol.handover import Handover
from oomph.run.directory.run_directory import FINISHED, KEPT, RUNNING, RunDirectory, RunRecord, read_record
from oomph.run.directory.trust import NOTEBOOKS, make_own_parents
from oomph.run.report.summary import summarise
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.settings import MachineAtStart


@dataclass(frozen=True)
class KernelRun:
    """The attempt of this kernel in the run of its notebook."""

    directory: RunDirectory
    chronicle: Chronicle
    began: float

    def handover(self) -> Handover:
        """Return what the session in this process needs to know."""
        directory = self.directory
        return Handover(
            package=PACKAGE,
            run_dir=str(directory.path),
            run_dir_is=directory.identity,
            attempt=self.chronicle.attempt,
            entropy=directory.record.entropy,
        )

    def end(self) -> None:
        """Record that the kernel ends here, and remove what no other kernel needs. Raises OSError on a full disk."""
        progress = self.chronicle.progress()
        steps, saved = (0, 0) if progress is None else (progress.steps, progress.saved)
        self.chronicle.write(
            AttemptEnded(returncode=0, seconds=round(time.monotonic() - self.began, 3), steps=steps, saved=saved)
        )
        self.chronicle.close_attempt(0)
        try:
            path, events = self.directory.path, self.chronicle.events()
            is_finished = not _to_resume(path, events)
            if is_finished:
                _clear(path, last(events, CheckpointSkipped) is not None)
            replace_own(path, "summary.json", summarise(events, 0).to_json().encode())
            self.directory.update(status=FINISHED if is_finished else KEPT)
        finally:
            self.directory.close()


def begin(notebook: Notebook, entropy: str) -> KernelRun:
    """Continue the run of a notebook, or start a new one. Raises RunDirectoryError if that is not possible.

    Args:
        entropy: the seed of a new run's unseeded generators.
    """
    directory = _open(notebook, entropy)
    try:
        chronicle = Chronicle(directory.path, directory.record.attempts)
        if chronicle.attempt:
            chronicle.close_lost_attempt()
        chronicle.begin_attempt((notebook.name,), sys.executable, MachineAtStart())
        directory.update(attempts=chronicle.attempt, status=RUNNING, host=process_identity.host())
    except OSError as error:
        directory.close()
        raise RunDirectoryError(f"{directory.path} cannot be written: {error.strerror}") from error
    except RunDirectoryError:
        directory.close()
        raise
    return KernelRun(directory, chronicle, time.monotonic())


def set_aside(notebook: Notebook) -> Path | None:
    """Rename the run of a notebook, so that the next one starts anew; return its new path, or None if there is none.

    Raises RunDirectoryError if a kernel is using it.
    """
    path = notebook.run_dir
    if read_record(path) is None:
        return None
    directory = RunDirectory.reopen(path)
    try:
        return directory.set_aside()
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be renamed: {error.strerror}") from error
    finally:
        directory.close()


def _open(notebook: Notebook, entropy: str) -> RunDirectory:
    path = notebook.run_dir
    record = read_record(path)
    if record is not None and record.status == FINISHED:
        set_aside(notebook)
    elif record is not None:
        directory = RunDirectory.reopen(path)
        trouble = foreign_journal(path) or foreign_checkpoints(path / "checkpoints")
        if trouble is not None:
            directory.close()
            raise RunDirectoryError(f"{path} cannot be continued: {trouble}")
        return directory
    try:
        make_own_parents(NOTEBOOKS, notebook.folder)
    except OSError as error:
        raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return RunDirectory.create(path, RunRecord((notebook.name,), sys.executable, os.getcwd(), created, entropy=entropy))


def _to_resume(run_dir: Path, events: Iterable[Event]) -> bool:
    """True if a checkpoint of a fit that has not finished is left."""
    if not is_own_folder(run_dir, "checkpoints"):
        return False
    left = unfinished(events)
    records = CheckpointStore(run_dir / "checkpoints").records()
    return any(record.meta.key in left and not record.finished for record in records)


def unfinished(events: Iterable[Event]) -> set[str]:
    """Return the keys of the fits and loops that have started, but not finished since."""
    left: set[str] = set()
    for event in events:
        match event.fact:
            case FitStarted(key=str(key)):
                left.add(key)
            case FitFinished(key=str(key)) | Resumed(key=str(key), kind="finished"):
                left.discard(key)
    return left


def _clear(run_dir: Path, keeps_step: bool) -> None:
    """Remove the checkpoints; after NaN, keep the last finite one."""
    if is_own_folder(run_dir, "checkpoints"):
        for path in run_dir.glob("checkpoints/finished-*" if keeps_step else "checkpoints"):
            shutil.rmtree(path, ignore_errors=True)
    if not keeps_step:
        (run_dir / "witness").unlink(missing_ok=True)
