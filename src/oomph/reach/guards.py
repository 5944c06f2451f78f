"""Finds reasons to kill a script early, or not to start it: it uses up memory, or trains where oomph is not loaded.

Training in a process without oomph would run for real.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from oomph.process.available_memory import available_bytes, total_bytes
from oomph.process.command import IS_PYTHON, after_env
from oomph.reach.channel import MARK
from oomph.terminal.amounts import as_size
from oomph.terminal.message import shown_line

_HIDING = "IES"
_WITH_VALUE = "WX"
_LAST = "cm"
_MEMORY_SECONDS = 0.1
_LEAST_SHARE, _LEAST_BYTES = 0.05, 1 << 30
"""The memory that must stay free, as a share and in bytes; the smaller amount counts."""
_ITS_SHARE = 0.3
"""A script that uses a smaller share of the memory than this is not to blame."""
_KILLED_FIRST = 900
"""The score (-1000 to 1000) that makes the kernel kill the script first if memory runs out."""
_LIBRARIES = ("/libtensorflow", "/_pywrap_tensorflow")
_PROCESSES_SECONDS = 0.5
_MOST_CHARACTERS = 80


def hiding_option(words: Sequence[str]) -> str:
    """Return the first Python option on a command line that keeps oomph from loading, such as "-I"; empty if none."""
    rest = list(after_env(words))
    if not rest or not IS_PYTHON.match(rest[0]):
        return ""
    options = iter(rest[1:])
    for word in options:
        if not word.startswith("-") or word in ("-", "--"):
            return ""
        if word.startswith("--"):
            continue
        for number, letter in enumerate(word[1:], 2):
            if letter in _HIDING:
                return f"-{letter}"
            if letter in _LAST:
                return ""
            if letter in _WITH_VALUE:
                if number == len(word):
                    next(options, None)
                break
    return ""


class MemoryGuard:
    """Watches the memory of a script and its processes.

    Args:
        pid: the id of the script's first process.
        root: "/", except in tests.
    """

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._pid, self._root = pid, root
        self._total = total_bytes(root)
        self._due = 0.0
        _let_it_be_killed_first(pid)

    def said(self) -> str:
        """Describe excessive memory use: "20.1 GiB of the 23.5 GiB of memory here"; empty if there is none."""
        now = time.monotonic()
        if now < self._due or self._total is None:
            return ""
        self._due = now + _MEMORY_SECONDS
        left = available_bytes(self._root)
        if left is None or left >= min(_LEAST_SHARE * self._total, _LEAST_BYTES):
            return ""
        held = _resident(self._pid)
        if held <= _ITS_SHARE * self._total:
            return ""
        return f"{as_size(min(held, self._total))} of this machine's {as_size(self._total)} of memory"


def _resident(pid: int) -> int:
    """Return the memory held by the process and its descendants, in bytes."""
    import psutil

    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    held = 0
    for process in processes:
        try:
            held += process.memory_info().rss
        except psutil.Error:
            pass  # it has exited
    return held


def _let_it_be_killed_first(pid: int) -> None:
    """Make the kernel kill the script, not an unrelated program, if it acts before oomph does."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_KILLED_FIRST))
    except OSError:
        pass  # it has exited, or there is no /proc


class Unjoined:
    """Checks twice per second for descendants of this process that use TensorFlow without oomph."""

    def __init__(self) -> None:
        self._due = 0.0

    def said(self) -> str:
        """Describe the process found; empty if there is none."""
        now = time.monotonic()
        if now < self._due:
            return ""
        self._due = now + _PROCESSES_SECONDS
        # A process that exits while its maps are read shows only part of them, so suspects are read twice.
        return next((_in_words(pid) for pid in _descendants() if _hides(pid) and _hides(pid)), "")


def _descendants() -> list[int]:
    import psutil

    try:
        return [process.pid for process in psutil.Process().children(recursive=True)]
    except psutil.Error:
        return []


def _hides(pid: int) -> bool:
    """True if the process has loaded TensorFlow, but oomph has not joined it."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False  # it has exited, or belongs to another user
    return MARK not in maps and any(library in maps for library in _LIBRARIES)


def _in_words(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
    except OSError:
        words = ""
    shown = shown_line(words)
    return f"process {pid}" + (f" ({shown[:_MOST_CHARACTERS]})" if shown else "")
