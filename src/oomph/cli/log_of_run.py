"""Recognises the log of an `oomph run` that finished, and so survived its faults."""

from __future__ import annotations

import os
import re
from pathlib import Path

from oomph.files.opening import open_regular

_END_BYTES = 1 << 16
_FINISHED = re.compile(rb"^oomph: the end {1,20}the script finished(?:, (\d{1,12} steps?))?", re.MULTILINE)


def survived(target: str | None) -> str:
    """A clause that says how a log's run ended; empty unless its last account says that it finished."""
    if target is None or not Path(target).is_file():
        return ""
    try:
        with open_regular(Path(target)) as log:
            log.seek(max(os.fstat(log.fileno()).st_size - _END_BYTES, 0))
            end = log.read()
    except OSError:
        return ""
    accounts = list(re.finditer(rb"^oomph: the end ", end, re.MULTILINE))
    found = _FINISHED.match(end, accounts[-1].start()) if accounts else None
    if found is None:
        return ""
    steps = f", all {found[1].decode()}" if found[1] else ""
    return f"; oomph kept the run alive, and the script finished{steps}"
