"""The run of a notebook, in which each kernel process is one attempt.

A kernel that nobody supervises writes the journal that a supervisor would write. If it dies, the next kernel records
its end. A run is finished once its kernel has ended, or oomph was disabled, and no fit is left to resume.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.checkpoint.store import CheckpointStore
from oomph.errors import RunDirectoryError
from oomph.files.opening import is_own_folder, replace_own
from oomph.files.user_code import PACKAGE
from oomph.journal.events import AttemptEnded, CheckpointSkipped, FitFinished, FitStarted, Resumed
from oomph.journal.journal import Event, last
from oomph.notebook.naming import Notebook
from oomph.notebook.run_of_notebook import open_run
from oomph.process import process_identity
from oomph.protocol.handover import Guarding, Handover
from oomph.run.directory.run_directory import FINISHED, KEPT, RUNNING, RunDirectory
from oomph.run.report.summary import summarise
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.settings import MachineAtStart


@dataclass(frozen=True)
class KernelRun:
    """The attempt of this kernel in the run of its notebook."""

    directory: RunDirectory
    chronicle: Chronicle
    guarding: Guarding
    began: float

    def handover(self) -> Handover:
        """Return what the session in this process needs to know."""
        directory = self.directory
        return Handover(
            package=PACKAGE,
            run_dir=str(directory.path),
            run_dir_is=directory.identity,
            attempt=self.chronicle.attempt,
            guarding=self.guarding,
            entropy=directory.record.entropy,
        )

    def end(self) -> None:
        """Record that the kernel ends here, and remove what no other kernel needs. Raises OSError on a full disk."""
        progress = self.chronicle.script.progress()
        steps, saved = (0, 0) if progress is None else (progress.steps, progress.saved)
        self.chronicle.write(
            AttemptEnded(returncode=0, seconds=round(time.monotonic() - self.began, 3), steps=steps, saved=saved)
        )
        self.chronicle.close_attempt(0)
        try:
            settle(self.directory, self.chronicle.events())
        finally:
            self.directory.close()


def begin(notebook: Notebook, entropy: str) -> KernelRun:
    """Begin an attempt in a notebook's unfinished run, or in a new run. Raises RunDirectoryError if that is impossible.

    Args:
        entropy: the seed of a new run's unseeded generators.
    """
    directory = open_run(notebook, entropy)
    try:
        chronicle = Chronicle(directory.path, directory.record.attempts)
        if chronicle.attempt:
            chronicle.close_lost_attempt()
        chronicle.begin_attempt((notebook.name,), sys.executable, MachineAtStart())
        host, python = process_identity.host(), sys.executable
        directory.update(attempts=chronicle.attempt, status=RUNNING, host=host, python=python)
    except OSError as error:
        directory.close()
        raise RunDirectoryError(f"{directory.path} cannot be written: {error.strerror}") from error
    except RunDirectoryError:
        directory.close()
        raise
    return KernelRun(directory, chronicle, Guarding(resumes_edited=notebook.is_named), time.monotonic())


def settle(directory: RunDirectory, events: Sequence[Event]) -> None:
    """Summarise the run of a kernel that has ended, and remove what no other kernel needs.

    Raises OSError on a full disk.
    """
    path = directory.path
    is_finished = not _to_resume(path, events)
    if is_finished:
        _clear(path, last(events, CheckpointSkipped) is not None)
    replace_own(path, "summary.json", summarise(events, 0).to_json().encode())
    directory.update(status=FINISHED if is_finished else KEPT)


def _to_resume(run_dir: Path, events: Iterable[Event]) -> bool:
    """True if a checkpoint of an unfinished fit is left."""
    if not is_own_folder(run_dir, "checkpoints"):
        return False
    left = unfinished(events)
    records = CheckpointStore(run_dir / "checkpoints").records()
    return any(record.meta.key in left and not record.finished for record in records)


def unfinished(events: Iterable[Event]) -> set[str]:
    """Return the keys of the fits and loops that have started but not finished since."""
    left: set[str] = set()
    for event in events:
        match event.fact:
            case FitStarted(key=str(key)):
                left.add(key)
            case FitFinished(key=str(key)) | Resumed(key=str(key), kind="finished"):
                left.discard(key)
    return left


def _clear(run_dir: Path, keeps_step: bool) -> None:
    """Remove the checkpoints and the witness; after NaN, only end states, which leaves the last finite checkpoint."""
    if is_own_folder(run_dir, "checkpoints"):
        for path in run_dir.glob("checkpoints/finished-*" if keeps_step else "checkpoints"):
            shutil.rmtree(path, ignore_errors=True)
    if not keeps_step:
        (run_dir / "witness").unlink(missing_ok=True)
