"""Keeps oomphs on two hosts out of one run directory, on file systems whose locks may not reach both.

A lock that the kernel keeps (`flock`) is certain within one host. On a network file system it depends on the server and
on how the folder is mounted. There, the holder also writes a growing number beside its identity, every few seconds.
Whoever finds a holder of another boot waits to see whether that number grows; clocks are not compared. A holder that
finds another one in its place, because it had been suspended for too long, must stop.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import open_own
from oomph.process.process_identity import ProcessIdentity, boot
from oomph.terminal.console import Ticking

LOCK = "lock"
BEAT_SECONDS = 5.0
SILENT_SECONDS = 60.0
"""The time without a beat after which a holder counts as gone. The holder may be busy for a while between attempts."""
_LOOK_SECONDS = 1.0
_HOLDER_BYTES = 512
_LOCAL = frozenset((
    "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
))  # fmt: skip
"""The types of file systems that one kernel has for itself, so that its locks reach everybody."""


class LockHolder(NamedTuple):
    """The last process to lock a run directory."""

    process: ProcessIdentity
    beat: int | None = None
    """A number that grows while the process lives, or None if it has released the directory, or does not beat."""

    @classmethod
    def from_text(cls, text: str) -> LockHolder | None:
        """Parse the content of a lock, or return None if it names nobody."""
        process, words = ProcessIdentity.from_text(text), text.split()
        if process is None:
            return None
        return cls(process, int(words[4]) if len(words) > 4 and words[4].isdecimal() else None)

    def to_text(self) -> str:
        """Return the content of a lock."""
        return self.process.to_text() if self.beat is None else f"{self.process.to_text().rstrip()} {self.beat}\n"


def holder_in(fd: int) -> LockHolder | None:
    """Return the holder that an open lock names."""
    return LockHolder.from_text(os.pread(fd, _HOLDER_BYTES, 0).decode(errors="replace"))


def beats_elsewhere(holder: LockHolder | None) -> bool:
    """True if a holder may live on another host, beyond the reach of this one's locks."""
    return holder is not None and holder.beat is not None and holder.process.boot != boot()


def is_held(run_dir: Path, name: str = LOCK) -> bool:
    """True if a process holds a lock of a run. Tries to acquire the lock to find out.

    On a file system that hosts share, a holder on another one counts if its last beat looks recent, by this clock.
    """
    try:
        fd = open_own(run_dir, name, os.O_RDONLY)
    except OSError:
        return False
    try:
        holder, is_recent = holder_in(fd), time.time() - os.fstat(fd).st_mtime < SILENT_SECONDS
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return holder is not None and (holder.process.lives or (is_recent and beats_elsewhere(holder)))
    finally:
        os.close(fd)
    return is_recent and beats_elsewhere(holder)


def lives_elsewhere(run_dir: Path, holder: LockHolder | None) -> bool:
    """True if the holder of a lock lives on another host. Waits for its next beat if that is possible."""
    if holder is None or not beats_elsewhere(holder):
        return False
    until = time.monotonic() + SILENT_SECONDS
    with Ticking() as ticking:
        while time.monotonic() < until:
            ticking.tick(f"waiting to see whether {holder.process}, which did not finish, still uses {run_dir}")
            time.sleep(_LOOK_SECONDS)
            if newest_holder(run_dir) != holder:
                return True
    return False


def newest_holder(run_dir: Path) -> LockHolder | None:
    """Return the holder of a lock, which is opened anew: only then NFS asks the server."""
    fd = open_own(run_dir, LOCK, os.O_RDONLY)
    try:
        return holder_in(fd)
    finally:
        os.close(fd)


class Lease:
    """The identity of this process in the lock of a run directory.

    Args:
        run_dir: the run directory.
        fd: its lock, which this process holds.
    """

    def __init__(self, run_dir: Path, fd: int) -> None:
        self.fd = fd
        self._run_dir, self._beats, self._due = run_dir, is_shared(run_dir), 0.0
        self._holder = LockHolder(ProcessIdentity.here())
        self._write()

    def is_kept(self) -> bool:
        """Beat, if it is time to. Return False if another process has taken the run directory."""
        if not self._beats or time.monotonic() < self._due:
            return True
        self._due = time.monotonic() + BEAT_SECONDS
        try:
            found = newest_holder(self._run_dir)
            if found is not None and found.process != self._holder.process:
                return False
            self._holder = self._holder._replace(beat=(self._holder.beat or 0) + 1)
            self._write()
        except OSError:
            pass  # the server does not answer: whoever waits for a beat cannot read it, either
        return True

    def release(self) -> None:
        """Let others see that nobody needs to be waited for."""
        if self._holder.beat is None:
            return
        self._due = 0.0
        if self.is_kept():
            self._holder = self._holder._replace(beat=None)
            try:
                self._write()
            except OSError:
                pass  # the next one waits

    def _write(self) -> None:
        """Replace the holder's line, whose length changes only at its end."""
        text = self._holder.to_text().encode()
        os.pwrite(self.fd, text, 0)
        os.ftruncate(self.fd, len(text))
        if self._beats:
            os.fsync(self.fd)  # NFS would keep it in this host's memory


def is_shared(folder: Path) -> bool:
    """True if other hosts may use the file system of a folder at the same time."""
    try:
        device = os.stat(folder).st_dev
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    types = {line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == wanted}
    return bool(types) and not types <= _LOCAL
