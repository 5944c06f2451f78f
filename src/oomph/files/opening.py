"""Opens files so that nobody can misdirect oomph: only regular files, and never through a link in a run directory.

A run directory may come from somebody else: unpacked from an archive, or planted where a run will look for it. A link
in it could make oomph overwrite any of the user's files, and reading a FIFO would never finish. The files in a run
directory are opened relative to its descriptor, with access for this user alone. Used in both processes; standard
library only.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from oomph.errors import RunDirectoryError
from oomph.files.own_descriptor import OwnDescriptor


def open_regular(path: Path) -> BinaryIO:
    """Open the file for reading. Raises OSError if it is unreadable or not a regular file."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "not a file name", os.fspath(path))
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # does not wait for a FIFO's writer
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(fd, "rb")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Read the whole file. Raises the same errors as `open_regular`, and OSError if it exceeds `most` bytes."""
    with open_regular(path) as file:
        content = file.read() if most is None else file.read(most + 1)
    if most is not None and len(content) > most:
        raise OSError(errno.EFBIG, "larger than expected", str(path))
    return content


FOLDER_MODE, FILE_MODE = 0o700, 0o600
MOST_READ = 64 << 20
"""The most bytes to read at once from one of oomph's small files."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITING = os.O_WRONLY | os.O_RDWR
_reaching = threading.local()
_pinned: dict[str, tuple[OwnDescriptor, tuple[int, int]]] = {}
"""Maps a path to the descriptor through which the folder is accessed, and the folder's identity."""


def pin(root: Path, expected: tuple[int, int] | None = None) -> tuple[int, int]:
    """Access everything below `root` through a descriptor of the folder that has this name now.

    Returns the folder's identity: device and inode.

    Args:
        expected: the identity that the folder must have. Raises OSError if it differs.
    """
    fd = os.open(root, _FOLDER)
    found = os.fstat(fd)
    identity = (found.st_dev, found.st_ino)
    if expected is not None and identity != expected:
        os.close(fd)
        raise OSError(errno.ESTALE, f"{root} has been replaced by another folder", os.fspath(root))
    unpin(root)
    _pinned[os.fspath(root)] = OwnDescriptor(fd), identity
    return identity


def unpin(root: Path) -> None:
    """Go back to accessing `root` by name rather than through a descriptor."""
    before = _pinned.pop(os.fspath(root), None)
    if before is not None:
        before[0].close()


def reached(folder: Path) -> Path:
    """Return a path to a folder below a pinned one that stays valid even if another folder takes the pinned one's name.

    For libraries that accept only paths, such as TensorFlow. If nothing above the folder is pinned, returns it
    unchanged.
    """
    wanted = os.fspath(folder)
    for path, (own, _) in _pinned.items():
        if wanted.startswith(path + os.sep) and own.is_ours:
            return Path(f"/proc/self/fd/{own.fd}{wanted[len(path) :]}")
    return folder


class OwnFile(NamedTuple):
    """The location of one of a run's files."""

    root: Path
    name: str
    """The path relative to the root, such as `stderr/1.log`."""

    def open(self, flags: int) -> int:
        """Open the file and return a descriptor (see `open_own`)."""
        return open_own(self.root, self.name, flags)


def open_own(root: Path, name: str, flags: int) -> int:
    """Open the regular file `name` below `root` and return a descriptor. With O_CREAT, missing folders are created.

    Raises:
        OSError: the file cannot be opened, is a link or is reached through one, is not a regular file, or is opened for
            writing and has a second hard link.
    """
    with _in_folder_of(root, name, make=bool(flags & os.O_CREAT)) as (folder, own):
        return _open_at(folder, own, flags)


def read_own(root: Path, name: str, most: int = MOST_READ) -> bytes:
    """Read a whole file. Raises the same errors as `open_own`, and OSError if it exceeds `most` bytes.

    A sparse file can have any size without taking up disk space.
    """
    with os.fdopen(open_own(root, name, os.O_RDONLY), "rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, "larger than expected", name)
        return file.read(most)


def replace_own(root: Path, name: str, content: bytes) -> None:
    """Replace a file atomically: readers see either the old contents or the new, even after the machine has crashed.

    Raises OSError if that fails.
    """
    with _in_folder_of(root, name, make=True) as (folder, own):
        partial = f"{own}.partial"
        try:
            os.unlink(partial, dir_fd=folder)  # left by a killed writer, or planted as a link
        except FileNotFoundError:
            pass
        with os.fdopen(_open_at(folder, partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, own, src_dir_fd=folder, dst_dir_fd=folder)


def make_own_folder(root: Path, name: str) -> None:
    """Create a folder under `root` unless it already exists. Raises OSError if it is a link or not a folder."""
    with _in_folder_of(root, f"{name}/.", make=True):
        pass


def is_own_folder(root: Path, name: str) -> bool:
    """True if a folder with that name, not a link, exists below `root`."""
    try:
        with _in_folder_of(root, f"{name}/.", make=False):
            return True
    except OSError:
        return False


def set_aside(folder: int, name: str) -> None:
    """Rename an entry in one of oomph's open folders, so that nothing reads it. Raises RunDirectoryError on failure."""
    try:
        os.rename(name, f"{name}.refused", src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:  # the new name is too long, or belongs to a folder
        raise RunDirectoryError(
            f"{name[:80]} does not belong to this run, and cannot be renamed: {error.strerror}"
        ) from error


def is_reaching() -> bool:
    """True if this thread is opening one of oomph's own files, which an audit hook cannot recognise by name."""
    return getattr(_reaching, "now", False)


@contextmanager
def reaching() -> Iterator[None]:
    """Let audit hooks know that the files this thread opens are oomph's own, not the script's."""
    before, _reaching.now = is_reaching(), True
    try:
        yield
    finally:
        _reaching.now = before


@contextmanager
def _in_folder_of(root: Path, name: str, make: bool) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the file's folder, and the last part of the file's name."""
    *folders, own = name.split("/")
    with reaching():
        current = open_folder(root, os.O_DIRECTORY)
        try:
            for folder in folders:
                inner = _folder_at(current, folder, make)
                os.close(current)
                current = inner
            yield current, own
        finally:
            os.close(current)


def open_folder(root: Path, links: int = os.O_NOFOLLOW) -> int:
    """Open a folder and return a descriptor, using a pinned descriptor for it or for a folder above it if there is one.

    Args:
        links: what to do if there is a link instead of the folder; by default, OSError is raised.
    """
    wanted = os.fspath(root)
    for path, (own, identity) in _pinned.items():
        if wanted != path and not wanted.startswith(path + os.sep):
            continue
        current = os.open(".", _FOLDER, dir_fd=own.fd) if own.is_ours else _open_again(path, identity)
        for name in filter(None, wanted[len(path) :].split(os.sep)):
            try:
                inner = _folder_at(current, name, make=False)
            finally:
                os.close(current)
            current = inner
        return current
    return os.open(root, _FOLDER & ~os.O_NOFOLLOW | links)


def _open_again(path: str, identity: tuple[int, int]) -> int:
    """Reopen a pinned folder whose descriptor the script has closed. Raises OSError if the folder was replaced."""
    fd = os.open(path, _FOLDER)
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != identity:
        os.close(fd)
        raise OSError(errno.ESTALE, f"{path} has been replaced by another folder", path)
    return fd


def _folder_at(parent: int, name: str, make: bool) -> int:
    if make:
        try:
            os.mkdir(name, FOLDER_MODE, dir_fd=parent)
            os.chmod(name, FOLDER_MODE, dir_fd=parent)  # whatever the umask
        except FileExistsError:
            pass
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except NotADirectoryError:
        raise OSError(errno.ENOTDIR, f"{name} is a link, or not a folder", name) from None


def _open_at(folder: int, name: str, flags: int) -> int:
    wanted = flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # never waits for a FIFO's other end
    try:
        fd = os.open(name, wanted, FILE_MODE, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise OSError(error.errno, f"{name} is a link, or not a regular file", name) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"{name} is a link, or not a regular file", name)
        if flags & _WRITING:
            if found.st_nlink > 1:
                raise OSError(errno.EMLINK, f"{name} has a second hard link", name)
            if flags & os.O_CREAT and stat.S_IMODE(found.st_mode) != FILE_MODE and found.st_uid == os.geteuid():
                os.fchmod(fd, FILE_MODE)
            if flags & os.O_TRUNC:
                os.ftruncate(fd, 0)
    except OSError:
        os.close(fd)
        raise
    return fd
