"""Both ends of the pipes between oomph and a script that it examines, and the handover that describes them.

The script's processes report in lines of JSON, take turns, and can stop the script. One of them may have closed the
inherited descriptors, as `subprocess` and daemons do. They are then reopened through the parent's entry in /proc.

A process that oomph has joined maps a page named `MARK`. A fork inherits it, whatever descriptors it closes; a newly
started program has none until oomph joins it, which happens before TensorFlow is imported. Standard library only.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from oomph.errors import UsageError
from oomph.script.pulse import inherited
from oomph.terminal.wrapping import shortened

if TYPE_CHECKING:
    from oomph.reach.request import ReachRequest

REACH = "OOMPH_REACH"
MARK = "oomph-joined"
MOST_FITS = 10_000
"""The highest number of a training call to examine: a turn is a byte in a pipe, whose capacity is 64 KiB."""
_CHUNK = 1 << 16
TRAIN, EXAMINE = b"t", b"x"
"""The bytes in the turns pipe; each training call takes one when it starts."""
_PART_CHARACTERS = 1500
"""The maximum number of characters in a part of the answer.

The part's line stays below PIPE_BUF (4096), so lines do not mix.
"""
_MOST_CHARACTERS = 500
_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class End:
    """One end of a pipe that belongs to the parent.

    It is identified by the descriptor that the script inherits, and by its inode for verification.
    """

    fd: int
    inode: int


@dataclass(frozen=True)
class ReachHandover:
    """The data that a process of the script needs."""

    parent: int
    """The id of the process that waits for the answer."""
    report: End
    """The end of the pipe for reports, which are lines of JSON."""
    turns: End
    """The end of the pipe from which training calls take turns."""
    examiner: str
    """The function that examines the training call: "package.module:function"."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The examiner's second argument."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Store the handover in an environment."""
        environ[REACH] = json.dumps(asdict(self))

    @classmethod
    def read(cls) -> ReachHandover | None:
        """Read this process's handover, or return None if it is missing or damaged."""
        try:
            document = json.loads(os.environ.get(REACH, "null"))
            document |= {name: End(**document[name]) for name in ("report", "turns")}
            return cls(**document)
        except (ValueError, TypeError, AttributeError, KeyError):
            return None


def mark_joined() -> bool:
    """Mark this process as joined. Returns False if the kernel does not support the mark."""
    try:
        import ctypes

        fd = os.memfd_create(MARK, os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, mmap.PAGESIZE)
            page = mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
    except (AttributeError, ImportError, OSError, ValueError):
        return False
    # Never freed: when Python exits, its modules go first, and TensorFlow's libraries stay mapped for a while.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(page))
    return True


class Pipes:
    """Both pipes, with a turn for each training call up to the one to examine.

    Args:
        fit: the number of the training call to examine; raises UsageError beyond MOST_FITS.
    """

    def __init__(self, fit: int) -> None:
        if not 1 <= fit <= MOST_FITS:
            raise UsageError(f"--fit expects a number from 1 to {MOST_FITS}, not {fit}")
        self.report_fd, self._report_write_fd = os.pipe()
        self._turns_fd, self._turns_write_fd = os.pipe()
        os.set_blocking(self.report_fd, False)
        os.set_blocking(self._turns_fd, False)
        os.write(self._turns_write_fd, TRAIN * (fit - 1) + EXAMINE)
        self._rest = b""

    @property
    def script_fds(self) -> tuple[int, int]:
        """The descriptors that the script inherits."""
        return self._report_write_fd, self._turns_fd

    def handover(self, request: ReachRequest) -> ReachHandover:
        """Build the handover that passes the pipes to the script's processes."""
        return ReachHandover(
            parent=os.getpid(),
            report=End(self._report_write_fd, os.fstat(self._report_write_fd).st_ino),
            turns=End(self._turns_fd, os.fstat(self._turns_fd).st_ino),
            examiner=request.examiner,
            arguments=request.arguments,
        )

    def lines(self) -> list[bytes]:
        """Return the complete lines that have arrived."""
        data = self._rest
        try:
            while chunk := os.read(self.report_fd, _CHUNK):
                data += chunk
        except BlockingIOError:
            pass  # everything has been read
        *lines, self._rest = data.split(b"\n")
        return lines

    def close(self) -> None:
        """Close both pipes."""
        for fd in (self.report_fd, *self.script_fds, self._turns_write_fd):
            os.close(fd)


class Channel:
    """The connection of one of the script's processes to the parent."""

    def __init__(self, handover: ReachHandover) -> None:
        self.handover = handover
        self._opened: dict[int, int] = {}
        """The reopened descriptors, keyed by their numbers in the parent."""

    def tell(self, **document: Any) -> bool:
        """Report one line to the parent. Returns False if the parent cannot be reached."""
        texts = {key: shortened(value, _MOST_CHARACTERS) for key, value in document.items() if isinstance(value, str)}
        return self._write(document | texts)

    def answer(self, document: Any) -> NoReturn:
        """Report the examiner's result, and kill all processes of the script."""
        text = json.dumps(document)
        parts = (text[start : start + _PART_CHARACTERS] for start in range(0, len(text), _PART_CHARACTERS))
        self.end(answered=all(self._write({"part": part}) for part in parts))

    def take_turn(self) -> bool:
        """Take this training call's turn: True if it is the one to examine. Never returns if another is being examined.

        Kills the script's processes if the parent cannot be reached: training must not run unexamined.
        """
        fd = self._open(self.handover.turns, os.O_RDONLY | os.O_NONBLOCK)
        if fd is None:
            _write_to_stderr("oomph: this process cannot reach oomph, which started it; it exits instead of training\n")
            self._end_group()
        try:
            turn = os.read(fd, 1)
        except BlockingIOError:
            turn = b""
        if turn not in (TRAIN, EXAMINE):
            wait_for_the_end()
        return turn == EXAMINE

    def end(self, **last: Any) -> NoReturn:
        """Report the last line, and kill every process of the script at once, before another line runs."""
        try:
            self.tell(**last)
        finally:
            self._end_group()

    def _write(self, document: dict[str, Any]) -> bool:
        fd = self._open(self.handover.report, os.O_WRONLY)
        try:
            return fd is not None and bool(os.write(fd, json.dumps(document).encode() + b"\n"))
        except OSError:
            return False  # the parent has exited

    def _open(self, end: End, flags: int) -> int | None:
        """Return the descriptor of a pipe's end, reopened through the parent if the script closed it."""
        for fd in (end.fd, self._opened.get(end.fd)):
            if inherited(fd, end.inode) is not None:
                return fd
        try:
            fd = os.open(f"/proc/{self.handover.parent}/fd/{end.fd}", flags | os.O_CLOEXEC)
        except OSError:
            return None
        self._opened[end.fd] = fd
        return inherited(fd, end.inode)

    def _end_group(self) -> NoReturn:
        """Kill the script's process group. From a different group, wait until the parent has done so, to exit last."""
        if not _is_started_by(os.getpgrp(), self.handover.parent):
            time.sleep(_GRACE_SECONDS)
        elif os.getpgrp() != _group_of(self.handover.parent):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(0)


def wait_for_the_end() -> NoReturn:
    """Wait until the parent kills this process."""
    while True:
        time.sleep(3600)


def _write_to_stderr(text: str) -> None:
    try:
        os.write(2, text.encode())
    except OSError:
        pass  # stderr is closed


def _is_started_by(pid: int, parent: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1]) == parent
    except (OSError, ValueError, IndexError):
        return False


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1
