"""Standard input: the next attempt can read a file again, but not a pipe."""

from __future__ import annotations

import os
import stat

_STDIN = 0


class StandardInput:
    """Remembers the position of standard input at the start of the run."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._told = False
        try:
            if stat.S_ISREG(os.fstat(_STDIN).st_mode):
                self._offset = os.lseek(_STDIN, 0, os.SEEK_CUR)
        except OSError:
            pass  # closed

    def rewind(self) -> str:
        """Rewind for the next attempt; returns the message to print where that is impossible."""
        if self._offset is not None:
            os.lseek(_STDIN, self._offset, os.SEEK_SET)
            return ""
        if self._told or not _is_pipe():
            return ""
        self._told = True
        return "standard input is a pipe: the next attempt cannot read again what the last one has read"


def _is_pipe() -> bool:
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
