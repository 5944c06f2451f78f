"""Numbers that are open files of the script: they mean something only in the process that opened them."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any


def is_open_for_writing(value: Any) -> bool:
    """True if the value is the number of a regular file that this process has open for writing, after the first three.

    A script that keeps the number of such a file opens the file anew in each attempt, and may get another number.
    """
    if type(value) is not int or not 2 < value < 1 << 20:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(value).st_mode)
        return is_file and fcntl.fcntl(value, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False
