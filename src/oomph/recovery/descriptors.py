"""File descriptors of a fork that lives on beside the supervisor."""

from __future__ import annotations

import os


def close_all_but(*kept: int) -> None:
    """Let go of every descriptor that a fork has inherited, but for these."""
    begin = 0
    for fd in sorted(kept):
        os.closerange(begin, fd)
        begin = fd + 1
    os.closerange(begin, max(begin, os.sysconf("SC_OPEN_MAX")))
