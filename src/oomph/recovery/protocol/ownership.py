"""Ownership: which process of an attempt is the script's main process. Standard library only.

The owner holds a lock on a file of the attempt for as long as it lives. A lock, and not the mere existence of the
file, because a script may replace itself (`os.execv` to set LD_LIBRARY_PATH, say) or be started by a wrapper that
runs one Python after the other: each of these owns the attempt in its turn, but never two at a time. A mark in the
environment tells the processes that an owner starts that they are no owners.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from oomph.run_files import open_own


def claim_ownership(run_dir: Path | None, attempt: int) -> bool:
    """Make this process the owner of the attempt; False when it descends from the owner, or another one lives."""
    if below_owner():
        return False
    if run_dir is not None:
        try:
            if not _lock_for_life(run_dir, f"owner-{attempt}"):
                return False
        except OSError:
            pass  # a file system without locks: the mark in the environment is what remains
    mark_owner()
    return True


def _lock_for_life(run_dir: Path, name: str) -> bool:
    """Take the lock and keep it until this process, and what it forked, has ended."""
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
    return True


VARIABLE = "OOMPH_OWNER"


def mark_owner() -> None:
    """Let every process that this one starts know that the attempt has its owner."""
    os.environ[VARIABLE] = str(os.getpid())


def below_owner() -> bool:
    """True in a process that an owner started; False in an owner that replaced itself by `os.execv`."""
    return os.environ.get(VARIABLE, "") not in ("", str(os.getpid()))
