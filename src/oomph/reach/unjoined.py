"""Finds processes of a script that use TensorFlow where oomph is not loaded, so that a training there runs for real."""

from __future__ import annotations

import time
from pathlib import Path

from oomph.reach.joined_mark import MARK
from oomph.terminal.message import shown_line

_LIBRARIES = ("/libtensorflow", "/_pywrap_tensorflow")
_EVERY_SECONDS = 0.5
_MOST_CHARACTERS = 80


class Unjoined:
    """Looks twice a second for such processes among this one's descendants."""

    def __init__(self) -> None:
        self._due = 0.0

    def said(self) -> str:
        """The process found, in words; empty if there is none."""
        now = time.monotonic()
        if now < self._due:
            return ""
        self._due = now + _EVERY_SECONDS
        # A process that ends between two pages of its list shows a part of it: what it hides is read twice.
        return next((_in_words(pid) for pid in _descendants() if _hides(pid) and _hides(pid)), "")


def _descendants() -> list[int]:
    import psutil

    try:
        return [process.pid for process in psutil.Process().children(recursive=True)]
    except psutil.Error:
        return []


def _hides(pid: int) -> bool:
    """True if the process has loaded TensorFlow, and oomph has not joined it."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False  # it has ended, or belongs to another user
    return MARK not in maps and any(library in maps for library in _LIBRARIES)


def _in_words(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
    except OSError:
        words = ""
    shown = shown_line(words)
    return f"process {pid}" + (f" ({shown[:_MOST_CHARACTERS]})" if shown else "")
