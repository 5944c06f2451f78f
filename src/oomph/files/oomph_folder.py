"""Creates `.oomph`, oomph's folder in a working directory: closed to other users, and ignored by Git.

Also finds the folders of several workers in a run directory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from oomph.files.opening import FILE_MODE, FOLDER_MODE, is_own_folder

OOMPH, RUNS, NOTEBOOKS, MONITOR, DEMO = ".oomph", "runs", "notebooks", "monitor", "demo"
"""The name of the folder, and those of the folders in it: of run directories, of what `oomph.Monitor` measures, and of
demonstrations."""
WORKERS = "workers"
"""The name of the folder in a run directory that holds the run directories of all workers but the first."""
MOST_WORKERS = 1024
"""The most workers of a run: far more than one machine has GPUs."""
_RANK = re.compile(r"[1-9][0-9]{0,3}")
WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
"""The mode bits that let other users write."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_own_parents(kind: str = RUNS, within: Path | None = None) -> Path:
    """Create `.oomph/KIND` in a folder, by default the working directory, accessible to this user alone.

    Existing folders are opened without following links, and other users lose write access to them. Raises OSError if
    one is a link or belongs to another user.
    """
    path = within or Path()
    current = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in (OOMPH, kind):
            path /= name
            is_new = _is_made(name, current)
            inner = _open_folder(name, current, path)
            os.close(current)
            current = inner
            _close_to_others(current, path)
            if is_new and name == OOMPH:
                _hide_from_git(current)
    finally:
        os.close(current)
    return path


def _is_made(name: str, parent: int) -> bool:
    """Create a folder. Return False if there is something with that name already."""
    try:
        os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _open_folder(name: str, parent: int, path: Path) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except (NotADirectoryError, PermissionError) as error:
        is_there = isinstance(error, NotADirectoryError)
        what = "is a link, or not a folder" if is_there else "cannot be read"
        raise OSError(error.errno, f"{path} {what}", str(path)) from None


def _close_to_others(folder: int, path: Path) -> None:
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, f"{path} belongs to another user", str(path))
    if found.st_mode & WRITTEN_BY_OTHERS:
        os.fchmod(folder, stat.S_IMODE(found.st_mode) & ~WRITTEN_BY_OTHERS)


def _hide_from_git(folder: int) -> None:
    """Write a .gitignore that hides the folder, as a virtual environment does. Git shows the folder if that fails."""
    try:
        fd = os.open(".gitignore", _NEW_FILE, FILE_MODE, dir_fd=folder)
    except OSError:
        return
    with os.fdopen(fd, "wb") as file:
        file.write(b"*\n")


def folder_of(run_dir: Path, rank: int) -> Path:
    """Return the run directory of one worker."""
    return run_dir if rank == 0 else run_dir / WORKERS / str(rank)


def run_of(folder: Path) -> Path:
    """Return the run directory of a run, given that of one of its workers."""
    return folder.parent.parent if folder.parent.name == WORKERS and folder.name.isdecimal() else folder


def ranks_of(run_dir: Path) -> list[int]:
    """Return the ranks of the workers whose run directories exist, in order. Links are none of them."""
    if not is_own_folder(run_dir, WORKERS):
        return [0]
    ranks = sorted(int(path.name) for path in (run_dir / WORKERS).iterdir() if _RANK.fullmatch(path.name))
    return [0, *(rank for rank in ranks[:MOST_WORKERS] if is_own_folder(run_dir, f"{WORKERS}/{rank}"))]
