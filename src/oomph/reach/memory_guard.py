"""Notices a script that is using up the machine's memory, before the kernel kills it or another process."""

from __future__ import annotations

import time
from pathlib import Path

from oomph.process.available_memory import available_bytes, total_bytes
from oomph.terminal.amounts import as_size

_EVERY_SECONDS = 0.1
_LEAST_SHARE, _LEAST_BYTES = 0.05, 1 << 30
"""The memory that must stay free, as a share and in bytes; the smaller amount counts."""
_ITS_SHARE = 0.3
"""A script that holds a smaller share of the memory is not to blame."""
_KILLED_FIRST = 900
"""The score (-1000 to 1000) that makes the kernel kill the script first when memory runs out."""


class MemoryGuard:
    """Watches the memory of a script and its processes.

    Args:
        pid: the id of the script's first process.
        root: "/", but for tests.
    """

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._pid, self._root = pid, root
        self._total = total_bytes(root)
        self._due = 0.0
        _let_it_be_killed_first(pid)

    def said(self) -> str:
        """The script's memory use if it is too much: "20.1 GiB of the 23.5 GiB of memory here"; else empty."""
        now = time.monotonic()
        if now < self._due or self._total is None:
            return ""
        self._due = now + _EVERY_SECONDS
        left = available_bytes(self._root)
        if left is None or left >= min(_LEAST_SHARE * self._total, _LEAST_BYTES):
            return ""
        held = _resident(self._pid)
        if held <= _ITS_SHARE * self._total:
            return ""
        return f"{as_size(min(held, self._total))} of the {as_size(self._total)} of memory here"


def _resident(pid: int) -> int:
    """Bytes held in memory by the process and its descendants."""
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
            pass  # it has ended
    return held


def _let_it_be_killed_first(pid: int) -> None:
    """Make the kernel kill the script rather than an unrelated program if it acts before oomph does."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_KILLED_FIRST))
    except OSError:
        pass  # it has ended, or there is no /proc
