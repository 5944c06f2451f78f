"""CheckpointStore: the checkpoints of a run, each written whole or not at all, and verified before it is used.

A checkpoint is written under a temporary name, flushed to the disk, and renamed. Standard library only.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from oomph.errors import CheckpointError
from oomph.recovery.checkpoint import (
    TENSORS,
    Checkpoint,
    CheckpointWriter,
    FormatError,
    Position,
    format_trouble,
    read_checkpoint,
    replace,
    seal,
    write_manifest,
)

T = TypeVar("T")
KEEP = 2
"""So many checkpoints within a fit are kept, and so many of those that were refused."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_TRIES = 3
_READ_PAUSE_SECONDS = 0.2
_STEP = re.compile(r"step-(\d{6,})-fit(\d+)-epoch(\d+)-step(\d+)")


@dataclass(frozen=True)
class Saved:
    """A checkpoint just written."""

    name: str
    nbytes: int
    digest: str = ""
    """SHA-256 of its tensors, in hexadecimal: two states with the same one are the same bits."""


class CheckpointStore:
    """The checkpoints of one run. One writer: the owner process of the attempt that holds the run's lock.

    Args:
        root: `DIR/checkpoints`.
        refused: told the name and the reason of every checkpoint that does not verify.
    """

    def __init__(self, root: Path, refused: Callable[[str, str], None] = lambda name, reason: None) -> None:
        self._root = root
        self._refused = refused
        self._number = 0

    def open(self) -> None:
        """Create the folder and clear away what a killed writer left; raises CheckpointError."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            for leftover in self._root.glob("tmp-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError as error:
            raise CheckpointError(f"{self._root}: {error.strerror}") from error
        numbers = [int(match[1]) for path in self._root.iterdir() if (match := _STEP.search(path.name))]
        self._number = max(numbers, default=0)

    def draft_step(self, at: Position) -> Draft:
        """Begin a checkpoint to resume from within a fit. Raises CheckpointError."""
        self._number += 1
        return Draft(self, f"step-{self._number:06d}-fit{at.fit}-epoch{at.epoch}-step{at.step}", at)

    def save_finished(self, at: Position, meta: dict[str, Any], write: Callable[[CheckpointWriter], None]) -> Saved:
        """Write the end state of a fit; it is kept for as long as the run may restart. Raises CheckpointError."""
        return Draft(self, f"finished-fit{at.fit}", at).complete(meta, write)

    def latest_step(self) -> Checkpoint | None:
        """The newest checkpoint that verifies. Those that do not are put aside and reported."""
        for path in reversed(self._steps()):
            checkpoint = self._verified(path)
            if checkpoint is not None:
                return checkpoint
        return None

    def finished(self, fit: int) -> Checkpoint | None:
        """The end state of a fit that an earlier attempt finished, if it is there and verifies."""
        path = self._root / f"finished-fit{fit}"
        return self._verified(path) if path.is_dir() else None

    def drop_steps(self, fit: int) -> None:
        """Remove the checkpoints within a fit, and within those before it: it has its end state."""
        for path in self._steps():
            match = _STEP.fullmatch(path.name)
            if match is not None and int(match[2]) <= fit:
                shutil.rmtree(path, ignore_errors=True)

    def set_aside(self, after_steps: int, reason: str) -> None:
        """Refuse the checkpoints within a fit that were taken after so many steps of the run, but not the oldest.

        One that may be wrong is better than none.
        """
        good = [path for path in self._steps() if self._verified(path) is not None]
        for path in good[1:]:
            checkpoint = self._verified(path)
            if checkpoint is not None and checkpoint.position.steps > after_steps:
                self._refuse(path, reason)

    # -- on disk --------------------------------------------------------------------------------------------------

    def folder_for(self, name: str) -> Path:
        """A new folder under a temporary name."""
        folder = self._root / f"tmp-{name}-{os.getpid()}"
        folder.mkdir(parents=True)
        return folder

    def put(self, folder: Path, name: str) -> None:
        """Give a complete folder its name, and let go of what is not needed any more."""
        replace(folder, self._root / name)
        self._forget(self._steps()[:-KEEP])
        self._forget(sorted(self._root.glob("refused-*"), key=_modified)[:-KEEP])

    def make_room(self) -> bool:
        """Remove all checkpoints within a fit but the newest; whether there were any."""
        older = self._steps()[:-1]
        self._forget(older)
        return bool(older)

    def _forget(self, folders: list[Path]) -> None:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _steps(self) -> list[Path]:
        try:
            found = [(match, path) for path in self._root.iterdir() if (match := _STEP.fullmatch(path.name))]
        except OSError:
            return []
        return [path for _, path in sorted(found, key=lambda pair: int(pair[0][1]))]

    def _verified(self, path: Path) -> Checkpoint | None:
        try:
            return _read_patiently(path)
        except FormatError as error:
            self._refused(path.name, str(error))  # it stays for the oomph that can read it
        except CheckpointError as error:
            if _may_come_back(error):
                self._refused(path.name, str(error))
            else:
                self._refuse(path, str(error))
        return None

    def _refuse(self, path: Path, reason: str) -> None:
        self._refused(path.name, reason)
        try:
            path.rename(path.with_name(f"refused-{path.name}"))
        except OSError:
            pass  # it stays where it is, and is refused again next time


class Draft:
    """A checkpoint in the making, in a folder that nobody else looks at.

    What has to be taken while the training stands still is put into `folder`; `complete` may run in another thread.
    """

    def __init__(self, store: CheckpointStore, name: str, at: Position) -> None:
        self._store, self._name, self._at = store, name, at
        try:
            self.folder = store.folder_for(name)
        except OSError as error:
            raise _failed(error, name) from error

    def complete(self, meta: dict[str, Any], write: Callable[[CheckpointWriter], None]) -> Saved:
        """Write the tensors, seal the folder and give it its name; raises CheckpointError with nothing left behind.

        Args:
            write: appends the tensors; called once more when the disk was full and an older checkpoint could go.
        """
        return self.filled(lambda: self._completed(meta, write))

    def filled(self, work: Callable[[], T]) -> T:
        """What `work` returns, which puts something into the folder; raises CheckpointError with nothing left behind.

        When the disk is full, it is done once more after an older checkpoint has made room.
        """
        try:
            try:
                return work()
            except OSError as error:
                if error.errno not in _FULL or not self._store.make_room():
                    raise
                return work()
        except OSError as error:
            self.abandon()
            raise _failed(error, self._name) from error
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Leave nothing of it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _completed(self, meta: dict[str, Any], write: Callable[[CheckpointWriter], None]) -> Saved:
        writer = CheckpointWriter(self.folder)
        try:
            write(writer)
        finally:
            writer.close()
        write_manifest(self.folder, self._at, meta, writer.entries)
        size, digests = seal(self.folder)
        self._store.put(self.folder, self._name)
        return Saved(self._name, size, digests[TENSORS])


def _read_patiently(path: Path) -> Checkpoint:
    """Read it again when the file system failed and not the file: NFS has such moments (ESTALE, EIO, ETIMEDOUT)."""
    for _ in range(_READ_TRIES - 1):
        try:
            return read_checkpoint(path)
        except CheckpointError as error:
            if not _may_come_back(error):
                raise
        time.sleep(_READ_PAUSE_SECONDS)
    return read_checkpoint(path)


def _may_come_back(error: CheckpointError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and not isinstance(cause, (FileNotFoundError, NotADirectoryError))


def _failed(error: OSError, name: str) -> CheckpointError:
    return CheckpointError(f"{error.strerror or error} (checkpoint {name})")


def foreign_format(root: Path) -> str | None:
    """Why this oomph can not read the newest checkpoint below `root`; None when it can, or when there is none."""
    for path in sorted([*root.glob("step-*"), *root.glob("finished-*")], key=_modified, reverse=True):
        try:
            trouble = format_trouble(path)
            return None if trouble is None else f"its checkpoints were {trouble}"
        except CheckpointError:
            continue  # damaged: the script's process will say so, and use the one before it
    return None


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
