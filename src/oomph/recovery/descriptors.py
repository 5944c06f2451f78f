"""File descriptors: the standard ones that a caller has closed, and those of a fork that lives on."""

from __future__ import annotations

import os

_MOST_WITHOUT_PROC = 4096


def fill_standard() -> None:
    """Put the null device where the caller has closed one of 0, 1 and 2, as some cron jobs and daemons do.

    The next files that are opened would get these numbers: the lock would be what the script reads, or prints into.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(null, True)


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
