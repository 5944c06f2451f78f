"""File descriptors of a fork that lives on beside the supervisor."""

from __future__ import annotations

import os

_MOST_WITHOUT_PROC = 4096


def close_all_but(*kept: int) -> None:
    """Let go of every descriptor that a fork has inherited, but for these."""
    for fd in _open() - {*kept}:
        try:
            os.close(fd)
        except OSError:
            pass  # that of the listing itself


def _open() -> set[int]:
    """Listed, and not counted up to the limit: containers allow a billion, and a limit may have been lowered since."""
    try:
        return {int(name) for name in os.listdir("/proc/self/fd")}
    except OSError:
        return set(range(_MOST_WITHOUT_PROC))
