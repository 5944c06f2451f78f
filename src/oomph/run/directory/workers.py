"""Finds and creates the run directories of several workers: the first has the run's own, the others lie below it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from oomph.errors import RunDirectoryError
from oomph.files.oomph_folder import WORKERS, folder_of, ranks_of
from oomph.files.opening import make_own_folder, open_folder
from oomph.process import process_identity
from oomph.run.directory.run_directory import RunDirectory, lock_run, read_record, why_no_record
from oomph.run.directory.trust import why_not_trusted

_ENTROPY_DIGITS = 32


def log_of(attempt: int) -> str:
    """Return the name of the log of a worker, other than the first, in its run directory."""
    return f"output/{attempt}.log"


def directory_of(run: RunDirectory, rank: int) -> RunDirectory:
    """Return the run directory of one worker, under the lock of the run. Raises RunDirectoryError if that fails.

    Generators without a seed start differently in each worker, as without oomph, but the same in each attempt.
    """
    if rank == 0:
        return run
    path = folder_of(run.path, rank)
    try:
        make_own_folder(run.path, f"{WORKERS}/{rank}")
        identity = _identity(path)
    except OSError as error:
        raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
    entropy = run.record.entropy
    if entropy:
        entropy = hashlib.sha256(f"{entropy}-{rank}".encode()).hexdigest()[:_ENTROPY_DIGITS]
    return RunDirectory(path, run.record._replace(entropy=entropy), run.lock_fd, identity)


def directory_beside(run_dir: Path, rank: int, attempts: int, command: Sequence[str]) -> RunDirectory:
    """Return the run directory of a worker, other than the first, that has its own supervisor and its own lock.

    Raises RunDirectoryError if that fails.

    Args:
        run_dir: the run directory of the first worker, which its supervisor, on another machine, has opened.
        rank: the rank of the worker.
        attempts: the number of attempts so far.
        command: the script that this worker runs and its arguments, without secrets.
    """
    record, stranger = read_record(run_dir), why_not_trusted(run_dir)
    if record is None or stranger is not None:
        raise RunDirectoryError(f"{run_dir} cannot be used: {stranger or 'its run.json ' + why_no_record(run_dir)}")
    record = record._replace(command=tuple(command), attempts=attempts, host=process_identity.host())
    shared = RunDirectory(run_dir, record, lock_fd=-1)
    own = directory_of(shared, rank)
    try:
        own.hold(lock_run(own.path))
        own.update()
    except OSError as error:
        raise RunDirectoryError(f"the run directory {own.path} cannot be written: {error.strerror}") from error
    return own


def folders_of(run_dir: Path) -> list[Path]:
    """Return the run directories that exist of the workers of a run, by rank. Links are none of them."""
    return [folder_of(run_dir, rank) for rank in ranks_of(run_dir)]


def _identity(path: Path) -> tuple[int, int]:
    fd = open_folder(path)
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    return found.st_dev, found.st_ino
