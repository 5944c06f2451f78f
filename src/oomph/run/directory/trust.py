"""Decides whether another user may have written to a run directory, and says how to keep others out of it.

A resumed run relies on everything in its run directory. The directory is therefore trusted only as a whole: the folder,
oomph's folders above it, and oomph's files in it must belong to this user, nobody else may be able to write to them,
and none may be a link. They are examined through a descriptor of the folder, and later opened through the same
descriptor (`opening.pin`), so a folder that is swapped in under the same name is never used.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from oomph.files.oomph_folder import NOTEBOOKS, OOMPH, RUNS, WRITTEN_BY_OTHERS
from oomph.files.opening import FILE_MODE, FOLDER_MODE, open_folder

_REACHED_BY_OTHERS = stat.S_IXGRP | stat.S_IXOTH
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OWN_NAMES = re.compile(
    r"(run|summary|micro_batch|store)\.json|report\.html|lock|progress|borders|witness|training|(created|appended|owner)-.*"
    r"|journal|checkpoints|stderr|monitor|cells|kernels|profile|workers|gang"
)
"""The names of oomph's own files and folders in a run directory."""
_DEEPEST = 20
_MOST_ENTRIES = 100_000


def close_to_others(folder: Path) -> None:
    """Keep other users from reading or writing to a folder. Raises OSError if it belongs to another user."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user", str(folder))
        os.fchmod(fd, FOLDER_MODE)
    finally:
        os.close(fd)


def why_not_trusted(folder: Path) -> str | None:
    """Explain how another user may have written to a run directory, or return None if no other user can have.

    Everything is examined through one descriptor, without following links.
    """
    try:
        fd = open_folder(folder)
    except OSError as error:
        return "it is a symbolic link" if folder.is_symlink() else f"it cannot be opened: {error.strerror}"
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            return "it belongs to another user"
        if found.st_mode & WRITTEN_BY_OTHERS and _keeps_modes(folder):
            return f"others can write to it; check its contents, then: chmod go-w {shlex.quote(str(folder))}"
        return why_not_above(folder) or _trouble_within(fd, folder, bool(found.st_mode & _REACHED_BY_OTHERS))
    except OSError as error:
        return f"cannot inspect it: {error.strerror}"
    finally:
        os.close(fd)


def why_not_above(folder: Path) -> str | None:
    """Explain why oomph's folders above a run directory must not be used, or return None if they belong to the user."""
    for names, parent in zip(((RUNS, NOTEBOOKS), (OOMPH,)), folder.absolute().parents, strict=False):
        if parent.name not in names:
            return None
        try:
            found = parent.lstat()
        except OSError as error:
            return f"cannot inspect {parent}: {error.strerror}"
        if stat.S_ISLNK(found.st_mode):
            return f"{parent} is a symbolic link"
        if found.st_uid != os.geteuid():
            return f"{parent} belongs to another user"
    return None


def _trouble_within(fd: int, folder: Path, is_reached: bool) -> str | None:
    """Describe the first of oomph's own files that someone else may have written, or that leads out of the folder.

    Args:
        is_reached: True if other users may enter the folder, in which case the modes of the files in it matter.
    """
    for count, (name, found) in enumerate(_entries(fd)):
        if count >= _MOST_ENTRIES:
            return f"it contains more than {_MOST_ENTRIES} files"
        if name.count("/") > _DEEPEST:
            return f"it contains folders nested more than {_DEEPEST} deep, such as {name[:80]}"
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            return f"{name} in it is a link, or not a file"
        if found.st_uid not in (os.geteuid(), 0):
            return f"{name} in it belongs to another user"
        if is_reached and found.st_mode & WRITTEN_BY_OTHERS and _keeps_modes(folder):
            return f"others can write to {name} in it; check it, then: chmod -R go-w {shlex.quote(str(folder))}"
    return None


def _entries(fd: int, under: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield oomph's own entries below an open folder, by relative path. The script may keep other files there."""
    with os.scandir(fd) as entries:
        names = sorted(entry.name for entry in entries if under or OWN_NAMES.fullmatch(entry.name))
    for name in names:
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            continue  # a run still in progress has just removed it
        yield under + name, found
        if stat.S_ISDIR(found.st_mode):
            inner = os.open(name, _FOLDER, dir_fd=fd)
            try:
                yield from _entries(inner, f"{under}{name}/")
            finally:
                os.close(inner)


def _keeps_modes(folder: Path) -> bool:
    """True if the file system stores modes. On Windows disks and some network shares, everyone has write access."""
    from tempfile import NamedTemporaryFile  # late: hardly any folder is open to others

    try:
        with NamedTemporaryFile(dir=folder, prefix=".oomph-") as file:  # created with 0600
            return stat.S_IMODE(os.fstat(file.fileno()).st_mode) == FILE_MODE
    except OSError:
        return True
