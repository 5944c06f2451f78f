"""Opens closed standard file descriptors, polls them, and closes inherited ones. For the supervisor and its forks."""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Iterable

LEAST, EACH = 32, 10
"""The minimum number of descriptors for supervision: the supervisor opens 15 files, and passes six to the script. Each
further worker needs ten more."""
_MOST_WITHOUT_PROC = 4096


def fill_standard() -> None:
    """Open the null device for each of 0, 1 and 2 that the caller left closed, as some cron jobs and daemons do.

    Otherwise the next files to be opened would get these numbers, and the script might print into the lock file.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # this returns the lowest free number, which is fd
            os.set_inheritable(null, True)


def are_too_few(workers: int = 1) -> bool:
    """True if the limit on open files (`ulimit -n`) is too low to supervise a script, or several workers."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] < LEAST + EACH * (workers - 1)


def readable(fds: Iterable[int], seconds: float) -> list[int]:
    """Wait until one of the descriptors has data or is closed at the other end, and return all such descriptors.

    Unlike `select.select`, this accepts any descriptor number.
    """
    return _ready(fds, select.POLLIN, seconds)


def wait_until_writable(fd: int, seconds: float) -> None:
    """Wait until the descriptor is writable, but for at most `seconds`."""
    _ready([fd], select.POLLOUT, seconds)


def _ready(fds: Iterable[int], events: int, seconds: float) -> list[int]:
    poll = select.poll()  # select() does not support descriptors above 1023
    for fd in fds:
        poll.register(fd, events)
    return [fd for fd, _ in poll.poll(1000 * seconds)]


def close_all_but(*kept: int) -> None:
    """Close every descriptor that a fork inherited, except the given ones."""
    for fd in _open() - {*kept}:
        try:
            os.close(fd)
        except OSError:
            pass  # the descriptor of the listing itself


def _open() -> set[int]:
    """List the open descriptors. Trying all up to the limit won't do: it may be a billion, or may have been lowered."""
    try:
        return {int(name) for name in os.listdir("/proc/self/fd")}
    except OSError:
        return set(range(_MOST_WITHOUT_PROC))
