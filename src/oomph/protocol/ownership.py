"""Decides which process of an attempt is its owner, that is, the script's main process. Standard library only.

Runs in the script's processes. The owner holds a lock on a per-attempt file for as long as it is alive. The existence
of the file is not enough: a script may replace itself (for example with `os.execv`, to set LD_LIBRARY_PATH), or a
wrapper may run several Pythons one after another. Each of these owns the attempt in turn, but never two at a time. A
mark in the environment tells the processes that an owner starts that they are not owners.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from oomph.files.opening import open_own
from oomph.files.own_descriptor import OwnDescriptor
from oomph.process import undoing


def claim_ownership(run_dir: Path | None, attempt: int) -> bool:
    """Make this process the attempt's owner. Return False if it descends from an owner, or another owner is alive."""
    if below_owner():
        return False
    if run_dir is not None:
        try:
            if not _lock_for_life(run_dir, f"owner-{attempt}"):
                return False
        except OSError:
            pass  # a file system without locks: rely on the mark in the environment
    mark_owner()
    return True


def _lock_for_life(run_dir: Path, name: str) -> bool:
    """Acquire the lock until this process and its forks have exited. Return False if another process holds it."""
    fd = open_own(run_dir, name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return False
    except OSError:
        os.close(fd)
        raise
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    undoing.remember(OwnDescriptor(fd).close)
    return True


VARIABLE = "OOMPH_OWNER"


def mark_owner() -> None:
    """Mark all processes that this one starts as non-owners."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(os.getpid())
    undoing.remember(lambda: _put_back(before))


def _put_back(before: str | None) -> None:
    if before is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = before


def below_owner() -> bool:
    """True in a process that an owner started, False in an owner that replaced itself with `os.execv`."""
    return os.environ.get(VARIABLE, "") not in ("", str(os.getpid()))
