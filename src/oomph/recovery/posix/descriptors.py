"""File descriptors: the standard ones that a caller has closed, and those of a fork that lives on."""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Iterable

LEAST = 32
"""A supervisor has 15 files open, and the script gets six of its own."""
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


def are_too_few() -> bool:
    """Whether so few files may be open at a time (`ulimit -n`) that supervising a script would leave it none."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] < LEAST


def readable(fds: Iterable[int], seconds: float) -> list[int]:
    """Those that there is something to read from, or that have ended; waits for the first. Numbers of any size."""
    return _ready(fds, select.POLLIN, seconds)


def wait_until_writable(fd: int, seconds: float) -> None:
    """Return when it can be written to, or when the time is up."""
    _ready([fd], select.POLLOUT, seconds)


def _ready(fds: Iterable[int], events: int, seconds: float) -> list[int]:
    poll = select.poll()  # select() knows no descriptor beyond 1023
    for fd in fds:
        poll.register(fd, events)
    return [fd for fd, _ in poll.poll(1000 * seconds)]


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
