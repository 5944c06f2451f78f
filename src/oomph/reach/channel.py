"""The script's end of the pipes: it reports in lines of JSON, takes turns, and ends everything. Standard library only.

A process of the script may have closed the inherited descriptors: `subprocess` does, daemons do. They are then opened
again through /proc of the parent.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any, NoReturn

from oomph.reach.handover import End, ReachHandover
from oomph.script.pulse import inherited
from oomph.terminal.wrapping import shortened

TRAIN, EXAMINE = b"t", b"x"
"""The bytes in the pipe of turns: each training takes one as it begins."""
_PART_CHARACTERS = 1500
"""The most characters in a part of the answer: its line stays below PIPE_BUF (4096), so that lines do not mix."""
_MOST_CHARACTERS = 500
_GRACE_SECONDS = 5.0


class Channel:
    """The connection of one process of the script to the parent."""

    def __init__(self, handover: ReachHandover) -> None:
        self.handover = handover
        self._opened: dict[int, int] = {}
        """The descriptors that were opened again, by their numbers in the parent."""

    def tell(self, **document: Any) -> bool:
        """Report one line to the parent; False if the parent cannot be reached."""
        texts = {key: shortened(value, _MOST_CHARACTERS) for key, value in document.items() if isinstance(value, str)}
        return self._write(document | texts)

    def answer(self, document: Any) -> NoReturn:
        """Report the examiner's result, and end all processes of the script."""
        text = json.dumps(document)
        parts = (text[start : start + _PART_CHARACTERS] for start in range(0, len(text), _PART_CHARACTERS))
        self.end(answered=all(self._write({"part": part}) for part in parts))

    def take_turn(self) -> bool:
        """True if the training that begins is the one to examine. Never returns if another is being examined.

        Ends everything if the parent cannot be reached: the training must not run unexamined.
        """
        fd = self._open(self.handover.turns, os.O_RDONLY | os.O_NONBLOCK)
        if fd is None:
            _write_to_stderr("oomph: this process has no way to oomph, which started it; it ends instead of training\n")
            self._end_group()
        try:
            turn = os.read(fd, 1)
        except BlockingIOError:
            turn = b""
        if turn not in (TRAIN, EXAMINE):
            wait_for_the_end()
        return turn == EXAMINE

    def end(self, **last: Any) -> NoReturn:
        """Report the last line, and end every process of the script at once, before it runs another line."""
        try:
            self.tell(**last)
        finally:
            self._end_group()

    def _write(self, document: dict[str, Any]) -> bool:
        fd = self._open(self.handover.report, os.O_WRONLY)
        try:
            return fd is not None and bool(os.write(fd, json.dumps(document).encode() + b"\n"))
        except OSError:
            return False  # the parent has ended

    def _open(self, end: End, flags: int) -> int | None:
        """The descriptor of a pipe's end; opened again through the parent if the script has closed it."""
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
        """End the script's process group. In another group, wait until the parent has done so, to go last."""
        if not _is_started_by(os.getpgrp(), self.handover.parent):
            time.sleep(_GRACE_SECONDS)
        elif os.getpgrp() != _group_of(self.handover.parent):
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(0)


def wait_for_the_end() -> NoReturn:
    """Wait until the parent ends this process."""
    while True:
        time.sleep(3600)


def _write_to_stderr(text: str) -> None:
    try:
        os.write(2, text.encode())
    except OSError:
        pass  # closed


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
