"""CheckpointStore: writes a run's checkpoints atomically, and verifies each one before it is used.

A checkpoint is written under a temporary name, flushed to disk, and renamed. It is never removed in favour of a state
with fewer steps, even if it is unused. Runs in the script process. The supervisor does not write checkpoints: it
inspects them with `foreign_format`, `unused`, `newest_number` and `steps_saved_after`, and sets aside a checkpoint that
fails again. Standard library only.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TypeVar

from oomph.checkpoint.container import (
    TENSORS,
    Checkpoint,
    CheckpointWriter,
    FormatError,
    Position,
    format_trouble,
    is_sealed_with,
    read_checkpoint,
    read_manifest,
    replace,
    seal,
    write_manifest,
)
from oomph.checkpoint.manifest import Meta
from oomph.errors import CheckpointError
from oomph.files.opening import FOLDER_MODE, make_own_folder, reached

T = TypeVar("T")
KEEP = 2
"""The number of checkpoints to keep within a fit, and the number of refused checkpoints to keep."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_TRIES = 3
_READ_PAUSE_SECONDS = 0.2
_MOST_NUMBER = 10**9
_STEP = re.compile(r"step-(\d{6,})-fit(\d+)-epoch(\d+)-step(\d+)")
_END = re.compile(r"finished-fit(\d+)")


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was just written."""

    name: str
    nbytes: int
    digest: str = ""
    """The SHA-256 digest of its tensors in hexadecimal. Equal digests mean that the states are bitwise equal."""


@dataclass(frozen=True)
class Record:
    """The manifest of a checkpoint that has not been verified yet."""

    path: Path
    position: Position
    meta: Meta
    finished: bool
    """True if the checkpoint is the end state of a fit."""


class CheckpointStore:
    """The checkpoints of one run, written only by the owner process of the attempt that holds the run's lock.

    Args:
        root: `DIR/checkpoints`.
        refused: called with the name of each checkpoint that fails verification, and the reason.
        key: the key for the checkpoints' seals (`origin.py`), or None to neither make nor verify seals.
        from_elsewhere: called with the name of each checkpoint about to be used that was not sealed with that key.
    """

    def __init__(
        self,
        root: Path,
        refused: Callable[[str, str], None] = lambda name, reason: None,
        key: bytes | None = None,
        from_elsewhere: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._named = root
        self._refused, self._from_elsewhere = refused, from_elsewhere
        self.key = key
        self.common: int | None = None
        """The run's step count in the newest checkpoint that all workers have, or 0, or None if there are no others.

        No worker may remove that checkpoint: if one of them dies now, all resume from it.
        """
        self._number = 0
        self._steps_of: dict[str, int] = {}
        """Maps each checkpoint's name to the run's step count when the checkpoint was taken."""

    @property
    def _root(self) -> Path:
        """The path to the original folder, even if something else has its name now."""
        return reached(self._named)

    def open(self) -> None:
        """Create the folder and remove anything that a killed writer left behind. Raises CheckpointError."""
        try:
            make_own_folder(self._named.parent, self._named.name)
            for leftover in self._root.glob("tmp-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            self._number = self._last_number()
        except OSError as error:
            raise CheckpointError(f"{self._named}: {error.strerror}") from error

    def _last_number(self) -> int:
        """Return the latest checkpoint's number, after renumbering checkpoints that exceed the largest valid number."""
        numbers = [int(match[1]) for path in self._root.iterdir() if (match := _STEP.search(path.name))]
        last = max((number for number in numbers if number <= _MOST_NUMBER), default=0)
        beyond = [path for path in self._steps() if _number(path.name) > _MOST_NUMBER]
        for number, path in enumerate(beyond, last + 1):
            path.rename(path.with_name(_STEP.sub(rf"step-{number:06d}-fit\2-epoch\3-step\4", path.name)))
        return last + len(beyond)

    def draft_step(self, at: Position) -> Draft:
        """Start a checkpoint within a fit. Raises CheckpointError."""
        self._number += 1
        return Draft(self, _step_name(self._number, at), at)

    def draft_finished(self, at: Position) -> Draft:
        """Start the end state of a fit, which is kept as long as the run may restart. Raises CheckpointError."""
        return Draft(self, _end_name(at.fit), at)

    @property
    def is_empty(self) -> bool:
        """True if the folder holds nothing, not even a refused checkpoint."""
        return not any(self._root.iterdir())

    def records(self) -> list[Record]:
        """Return all checkpoints, newest first; the end states of fits come last."""
        found = [(path, False) for path in reversed(self._steps())]
        found += [(path, True) for path in self._root.glob("finished-fit*")]
        records = []
        for path, is_end in found:
            try:
                position, meta = read_manifest(path)
            except CheckpointError:
                continue  # it will be refused and reported when the run tries to use it
            self._steps_of[path.name] = position.steps
            records.append(Record(path, position, meta, is_end))
        ends = sorted((each for each in records if each.finished), key=_taken_at, reverse=True)
        return [*(each for each in records if not each.finished), *ends]

    def latest_step(self, fit: int | None = None) -> Checkpoint | None:
        """Return the latest valid checkpoint of one fit, or of all fits; report newer ones and set them aside."""
        for path in reversed(self._steps(fit)):
            checkpoint = self._verified(path)
            if checkpoint is not None:
                return checkpoint
        return None

    def step_before(self, newer: Checkpoint) -> Checkpoint | None:
        """Return the latest valid checkpoint of the same fit that is older than `newer`, if there is one."""
        older = [path for path in self._steps(newer.position.fit) if _number(path.name) < _number(newer.name)]
        found = (self._verified(path) for path in reversed(older))
        return next((checkpoint for checkpoint in found if checkpoint is not None), None)

    def finished(self, fit: int) -> Checkpoint | None:
        """Return the end state of a fit that an earlier attempt finished, if it exists and is valid."""
        path = self._root / _end_name(fit)
        return self._verified(path) if path.is_dir() else None

    def drop_steps(self, end: Position) -> None:
        """Remove the checkpoints within a fit, now that the fit's end state is saved, unless another worker needs them.

        Another worker may not have saved its end state yet. Then `put` removes them later.
        """
        if self.common is None:
            self._forget(self._outdone(self._steps(end.fit), end.steps))

    def keep_newest_step(self, fit: int) -> None:
        """Remove all but the latest checkpoint within a fit, since the run never resumes from an older one."""
        *older, newest = self._steps(fit) or [self._root]
        if self.common is None:
            self._forget(self._outdone(older, self._held(newest)))

    def drop_unfinished(self, key: str) -> None:
        """Remove the checkpoints within fits that have this key, since the user trains such a fit anew."""
        self._forget([each.path for each in self.records() if each.meta.key == key and not each.finished])

    def set_aside(self, after_steps: int, reason: str) -> None:
        """Refuse the checkpoints taken within fits after this many steps of the run, except for the oldest valid one.

        A checkpoint that may be wrong is better than none.
        """
        good = [path for path in self._steps() if self._verified(path) is not None]
        for path in good[1:]:
            checkpoint = self._verified(path)
            if checkpoint is not None and checkpoint.position.steps > after_steps:
                self._refuse(path, reason)

    # -- files and folders ----------------------------------------------------------------------------------------

    def folder_for(self, name: str) -> Path:
        """Create a folder with a temporary name."""
        folder = self._root / f"tmp-{name}-{os.getpid()}"
        folder.mkdir()
        folder.chmod(FOLDER_MODE)  # regardless of the umask
        return folder

    def put(self, folder: Path, name: str, at: Position) -> None:
        """Give a complete folder its final name, and remove checkpoints that are no longer needed."""
        replace(folder, self._root / name)
        self._steps_of[name] = at.steps
        if _STEP.fullmatch(name) is not None:
            older = self._steps(at.fit)[:-KEEP] if self.common is None else self._not_in_common(self.common)
            self._forget(self._outdone(older, at.steps))
        self._forget(sorted(self._root.glob("refused-*"), key=_modified)[:-KEEP])

    def make_room(self) -> bool:
        """Remove each fit's checkpoints that are no further along than its latest; return True if there were any."""
        fits = {int(match[2]) for path in self._steps() if (match := _STEP.fullmatch(path.name))}
        each = [self._steps(fit) for fit in fits]
        older = [path for steps in each for path in self._outdone(steps[:-1], self._held(steps[-1]))]
        older = [path for path in older if self.common is None or self._held(path) < self.common]
        self._forget(older)
        return bool(older)

    def _not_in_common(self, common: int) -> list[Path]:
        """Return the checkpoints of all fits that are older than the one that all workers have, and the superfluous.

        Newer ones are kept until it is known whether all have them, but only a few of them.
        """
        steps = self._steps()
        newer = [path for path in steps if self._held(path) > common]
        return [path for path in steps if self._held(path) < common] + newer[: -KEEP - 1]

    def _outdone(self, folders: list[Path], steps: int) -> list[Path]:
        """Return the folders of the checkpoints that were taken after at most this many steps of the run."""
        return [folder for folder in folders if self._held(folder) <= steps]

    def _held(self, folder: Path) -> int:
        if folder.name not in self._steps_of:
            try:
                self._steps_of[folder.name] = read_manifest(folder)[0].steps
            except CheckpointError:
                self._steps_of[folder.name] = 0  # the run could not resume from it anyway
        return self._steps_of[folder.name]

    def _forget(self, folders: list[Path]) -> None:
        """Remove folders, renaming each one first, since a half-deleted folder would look like a damaged checkpoint."""
        for folder in folders:
            leaving = folder.with_name(f"tmp-leaving-{folder.name}-{os.getpid()}")
            try:
                os.rename(folder, leaving)
            except OSError:
                leaving = folder
            shutil.rmtree(leaving, ignore_errors=True)

    def _steps(self, fit: int | None = None) -> list[Path]:
        """Return the folders of the checkpoints within one fit, or within all fits, oldest first."""
        try:
            found = [(match, path) for path in self._root.iterdir() if (match := _STEP.fullmatch(path.name))]
        except OSError:
            return []
        wanted = [(match, path) for match, path in found if fit is None or int(match[2]) == fit]
        return [path for _, path in sorted(wanted, key=lambda pair: int(pair[0][1]))]

    def _verified(self, path: Path) -> Checkpoint | None:
        try:
            found = _as_named(_read_patiently(path))
            if self.key is not None and not is_sealed_with(path, self.key):
                self._from_elsewhere(path.name)
            return found
        except FormatError as error:
            self._refused(path.name, str(error))  # keep it for a version of oomph that can read it
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
            pass  # it stays in place, and will be refused again next time


class Draft:
    """A checkpoint being written, in a folder that nothing else reads.

    State that must be captured while training pauses goes into `folder`; `complete` may run in another thread.
    """

    def __init__(self, store: CheckpointStore, name: str, at: Position) -> None:
        self._store, self._name, self._at = store, name, at
        try:
            self.folder = store.folder_for(name)
        except OSError as error:
            raise _failed(error, name) from error

    def complete(self, meta: Meta, write: Callable[[CheckpointWriter], None]) -> Saved:
        """Write the tensors, seal the folder, and give it its final name.

        If that fails, removes the folder and raises CheckpointError.

        Args:
            write: appends the tensors; called again if the disk was full and older checkpoints could be removed.
        """
        return self.filled(lambda: self._completed(meta, write))

    def filled(self, work: Callable[[], T]) -> T:
        """Run `work`, which writes to the folder. If that fails, removes the folder and raises CheckpointError.

        If the disk is full, older checkpoints are removed, and `work` runs again.
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
        """Discard the checkpoint by removing its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _completed(self, meta: Meta, write: Callable[[CheckpointWriter], None]) -> Saved:
        writer = CheckpointWriter(self.folder)
        try:
            write(writer)
        finally:
            writer.close()
        is_end = self._name == _end_name(self._at.fit)
        write_manifest(self.folder, self._at, replace_fields(meta, finished=is_end), writer.entries)
        size, digests = seal(self.folder, self._store.key)
        self._store.put(self.folder, self._name, self._at)
        return Saved(self._name, size, digests[TENSORS])


def _step_name(number: int, at: Position) -> str:
    return f"step-{number:06d}-fit{at.fit}-epoch{at.epoch}-step{at.step}"


def _end_name(fit: int) -> str:
    return f"finished-fit{fit}"


def _as_named(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint. Raises CheckpointError if its folder has another checkpoint's name, as a copy may have."""
    at, is_end = checkpoint.position, checkpoint.meta.finished
    own = _end_name(at.fit) if is_end else _step_name(_number(checkpoint.name), at)
    if checkpoint.name != own:
        what = "the end state" if is_end else f"step {at.step} of epoch {at.epoch}"
        raise CheckpointError(f"it is {what} of fit {at.fit}, in a folder named after something else")
    return checkpoint


def _read_patiently(path: Path) -> Checkpoint:
    """Read a checkpoint, retrying after file system errors such as those from NFS (ESTALE, EIO, ETIMEDOUT)."""
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
    """Return why this version of oomph can't read the latest checkpoint in `root`, or None if it can or none exists."""
    for path in sorted([*root.glob("step-*"), *root.glob("finished-*")], key=_modified, reverse=True):
        try:
            trouble = format_trouble(path)
            return None if trouble is None else f"its checkpoints were {trouble}"
        except CheckpointError:
            continue  # damaged: the script process will report it and use the previous one
    return None


def unused(root: Path, reached: Mapping[int, int]) -> list[Record]:
    """Return a finished run's checkpoints that have more steps than their fits reached in the end, newest first.

    Args:
        reached: maps each finished fit's number to the run's step count when the fit ended.
    """
    found = CheckpointStore(root).records()
    return [each for each in found if each.position.steps > reached.get(each.position.fit, -1)]


def newest_number(root: Path) -> int:
    """Return the highest number of any checkpoint within a fit, including refused ones, or 0 if there is none.

    Numbers only increase during a run, so a checkpoint with a higher number was taken later.
    """
    try:
        numbers = [int(match[1]) for path in root.iterdir() if (match := _STEP.search(path.name))]
    except OSError:
        return 0
    return max((number for number in numbers if number <= _MOST_NUMBER), default=0)


def steps_saved_after(root: Path, number: int) -> int:
    """Return the run's step count in the latest readable checkpoint numbered above `number`, or 0 if there is none."""
    later = [each for each in CheckpointStore(root).records() if number < _number(each.path.name) <= _MOST_NUMBER]
    return later[0].position.steps if later else 0


State = tuple[str, ...]
"""The fit, the epoch and the step of a checkpoint within a fit, or the fit alone of an end state."""


def state_of(name: str) -> State | None:
    """Return the state that a checkpoint's name promises, or None for any other name."""
    found = _STEP.fullmatch(name)
    if found is not None:
        return found.groups()[1:]
    end = _END.fullmatch(name)
    return None if end is None else end.groups()


def is_end(state: State) -> bool:
    """True for the end state of a fit."""
    return len(state) == 1


def in_order(names: Iterable[str]) -> list[str]:
    """Sort the names of checkpoints, the oldest within a fit first."""
    return sorted(names, key=lambda name: (_number(name), name))


def _number(name: str) -> int:
    """Parse the number of a checkpoint within a fit from its name; return 0 for any other name."""
    match = _STEP.fullmatch(name)
    return 0 if match is None else int(match[1])


def _taken_at(record: Record) -> float:
    """Return when a checkpoint was taken. The time of its folder is lost if it is copied, as from another machine."""
    return record.meta.taken_at or _modified(record.path)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
