"""Decides which runs in a folder to remove, and removes them: only oomph's own files, and never through a link."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from oomph.errors import RunDirectoryError
from oomph.files.opening import open_folder, pin, unpin
from oomph.monitor.store import LOCK as SAMPLES_LOCK
from oomph.run.directory.lease import is_held
from oomph.run.directory.listed_run import BLOCK_BYTES, GOING_ON, MEASURED, ListedRun
from oomph.run.directory.run_directory import STATUSES, lock_run
from oomph.run.directory.trust import OWN_NAMES

WhyKept = Literal["running", "resumable", "unreadable", "recent"]
_SET_ASIDE = re.compile(r"\.(\d+|partial|refused)\Z")
"""The ending that oomph appends to a name of its own that is not in use."""
_LAST = ("run.json", "lock")
"""The files to remove last: without the others, a run is still one that can be removed, if this is interrupted."""
_IN_USE = "it is in use"
_DEEPEST = 50


class PruneRule(NamedTuple):
    """The choice of the finished runs in a folder to remove. A run must meet both conditions."""

    older_than_seconds: float = 0.0
    keep: int = 0
    """The number of finished runs to keep, the newest ones."""


class PruneChoice(NamedTuple):
    """The runs of a folder, divided into those to remove and those to keep."""

    to_remove: tuple[ListedRun, ...]
    kept: tuple[tuple[ListedRun, WhyKept], ...] = ()


def choose(runs: Iterable[ListedRun], rule: PruneRule, now: float) -> PruneChoice:
    """Divide the runs of a folder, newest first, by the rule. Pure.

    Only runs that are over are removed: nothing of a run in progress, or that could go on from a checkpoint, or whose
    state is unknown.
    """
    to_remove, kept, over = [], [], 0
    for run in runs:
        why = _why_not_over(run)
        if why is None:
            over += 1
            why = "recent" if over <= rule.keep or now - run.changed < rule.older_than_seconds else None
        if why is None:
            to_remove.append(run)
        else:
            kept.append((run, why))
    return PruneChoice(tuple(to_remove), tuple(kept))


def _why_not_over(run: ListedRun) -> WhyKept | None:
    """Return why a run must not be removed unasked, or None if it is over for good. Pure."""
    if run.state == GOING_ON:
        return "running"
    if run.state == MEASURED:
        return None
    if run.record is None or run.record.status not in STATUSES:
        return "unreadable"
    return "resumable" if run.is_resumable else None


class Removal(NamedTuple):
    """The result of removing a run."""

    freed_bytes: int = 0
    """The space that was freed on the disk."""
    left: tuple[str, ...] = ()
    """The entries of the folder that are not oomph's. They stay, and so does the folder."""
    problem: str = ""
    """The reason why the run, or a part of it, could not be removed."""


def remove(path: Path, dry_run: bool = False) -> Removal:
    """Remove a run that is not in use: the files with oomph's names, since a script may keep its own beside them.

    The folder is opened without following a link, and locked, so that no other oomph can use it in the meantime.

    Args:
        dry_run: only return what would be removed.
    """
    path = path.absolute()
    if path.is_symlink():
        return Removal(problem="it is a link")
    try:
        pin(path)
        return _would_free(path) if dry_run else _remove_pinned(path)
    except RunDirectoryError:
        return Removal(problem=_IN_USE)
    except OSError as error:
        return Removal(problem=error.strerror or str(error))
    finally:
        unpin(path)


def _would_free(path: Path) -> Removal:
    if is_held(path) or is_held(path, SAMPLES_LOCK):
        return Removal(problem=_IN_USE)
    with _opened(path) as folder:
        return _emptied(folder, dry_run=True)


def _remove_pinned(path: Path) -> Removal:
    with _opened(path) as folder:
        if is_held(path, SAMPLES_LOCK):
            return Removal(problem=_IN_USE)
        lock_fd = lock_run(path).fd
        try:
            removal = _emptied(folder, dry_run=False)
        finally:
            os.close(lock_fd)
    if not removal.left and not removal.problem:
        path.rmdir()
    return removal


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Yield a descriptor of a run's folder. Raises OSError if it belongs to another user."""
    fd = open_folder(path)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user", str(path))
        yield fd
    finally:
        os.close(fd)


def _emptied(folder: int, dry_run: bool) -> Removal:
    """Remove oomph's entries from an open folder. If one cannot be removed, the run stays in the list of runs."""
    names = sorted(os.listdir(folder), key=lambda name: (name in _LAST, name))
    own = [name for name in names if OWN_NAMES.fullmatch(_SET_ASIDE.sub("", name))]
    freed = 0
    for name in own:
        try:
            freed += _remove_entry(folder, name, dry_run)
        except OSError as error:
            return Removal(freed, problem=f"{name} in it cannot be removed: {error.strerror}")
    return Removal(freed, tuple(name for name in names if name not in own))


def _remove_entry(parent: int, name: str, dry_run: bool, depth: int = 0) -> int:
    """Remove a file or a folder, and return the bytes that this frees. A link is removed, not followed."""
    if depth > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"it contains folders nested more than {_DEEPEST} deep", name)
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    is_folder = stat.S_ISDIR(found.st_mode)
    freed = found.st_blocks * BLOCK_BYTES if is_folder or found.st_nlink == 1 else 0
    if is_folder:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            freed += sum(_remove_entry(inner, each, dry_run, depth + 1) for each in os.listdir(inner))
        finally:
            os.close(inner)
    if not dry_run:
        (os.rmdir if is_folder else os.unlink)(name, dir_fd=parent)
    return freed
