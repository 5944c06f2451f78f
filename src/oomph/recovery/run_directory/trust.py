"""Whether another user may have written a run directory, and how to keep others out of it."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import tempfile
from pathlib import Path

from oomph.run_files import FILE_MODE, FOLDER_MODE

_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def close_to_others(folder: Path) -> None:
    """Keep other users from reading or writing a folder. Raises OSError when it belongs to another user."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user", str(folder))
        os.fchmod(fd, FOLDER_MODE)
    finally:
        os.close(fd)


def why_not_trusted(folder: Path) -> str | None:
    """Why another user may have written what is in a folder, in words; None when none can have."""
    if folder.is_symlink():
        return "it is a symbolic link"
    found = folder.stat()
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_mode & _WRITTEN_BY_OTHERS and _keeps_modes(folder):
        return f"others may write to it; check its content, then: chmod go-w {shlex.quote(str(folder))}"
    return None


def _keeps_modes(folder: Path) -> bool:
    """Whether the file system keeps modes: Windows disks and some network file systems let everyone write."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".oomph-") as file:  # created with 0600
            return stat.S_IMODE(os.fstat(file.fileno()).st_mode) == FILE_MODE
    except OSError:
        return True
