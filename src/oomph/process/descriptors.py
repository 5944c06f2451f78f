"""File descriptors: fills closed standard ones, polls, and closes inherited ones. Supervisor process and its forks."""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Iterable

LEAST = 32
"""The fewest descriptors for supervising a script: the supervisor has 15 files open, and passes six to the script."""
_MOST_WITHOUT_PROC = 4096


def fill_standard() -> None:
    """Open the null device for any of 0, 1 and 2 that the caller has closed, as some cron jobs and daemons do.

    Otherwise the next opened files would get these numbers, and the script would read or print into the lock.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is fd
            os.set_inheritable(null, True)


def are_too_few() -> bool:
    """True if the limit on open files (`ulimit -n`) is too low to supervise a script."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] < LEAST


def readable(fds: Iterable[int], seconds: float) -> list[int]:
    """Wait until one of these descriptors has data or ends, and return all that do. Accepts any descriptor number."""
    return _ready(fds, select.POLLIN, seconds)


def wait_until_writable(fd: int, seconds: float) -> None:
    """Wait until the descriptor is writable, but at most `seconds`."""
    _ready([fd], select.POLLOUT, seconds)


def _ready(fds: Iterable[int], events: int, seconds: float) -> list[int]:
    poll = select.poll()  # select() does not support descriptors above 1023
    for fd in fds:
        poll.register(fd, events)
    return [fd for fd, _ in poll.poll(1000 * seconds)]


def close_all_but(*kept: int) -> None:
    """Close every descriptor that a fork inherited except these."""
    for fd in _open() - {*kept}:
        try:
            os.close(fd)
        except OSError:
            pass  # the descriptor of the listing itself


def _open() -> set[int]:
    """List the open descriptors. Counting up to the limit would fail: it may be a billion, or may have been lowered."""
    try:
        return {int(name) for name in os.listdir("/proc/self/fd")}
    except OSError:
        return set(range(_MOST_WITHOUT_PROC))
