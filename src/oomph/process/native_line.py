"""The head of a line from TensorFlow's native code: severity, time, thread, source file. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEAD = re.compile(
    rb"(?:(?P<severity>[IWEF])\d{4} \d\d:\d\d:[\d.:]{1,24} {1,12}\d{1,10} "
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: (?P<older>[IWEF]) )"
    rb"(?P<file>[\w./-]{1,200}\.cc):\d{1,6}\] "
)
"""The head of a native line, in TensorFlow 2.18 and later or before (absl/log/internal/log_format.cc, tsl logging)."""
_BEGINS = re.compile(
    rb"[IWEF]\d{0,4}\Z|[IWEF]\d{4} [\d:. ]{0,60}(?:[\w./-]{0,200})(?::\d{0,6}\]?)?\Z"
    rb"|\d{1,4}\Z|\d{4}-[\d:. -]{0,30}(?:[IWEF] ?)?(?:[\w./-]{0,200})(?::\d{0,6}\]?)?\Z"
)
"""The beginning of such a head, in a partial line."""


class Head(NamedTuple):
    """The head of a native line."""

    start: int
    """The offset of the head in the line, which a progress bar may precede."""
    end: int
    severity: bytes
    """The severity: I, W, E or F; an F line reports the error that aborts the process."""
    file: bytes
    """The name of the source file, without its folder."""


def head_of(line: bytes) -> Head | None:
    """The head of the native line; None when the line is not native."""
    found = _HEAD.search(line) if b".cc:" in line else None  # most lines need no search for a pattern
    if found is None:
        return None
    severity, file = found["severity"] or found["older"], found["file"].rpartition(b"/")[2]
    return Head(found.start(), found.end(), severity, file)


def may_become_native(partial: bytes) -> bool:
    """True if a line that begins like this is native, or may be."""
    return _BEGINS.match(partial) is not None or head_of(partial) is not None
