"""The kernel's log of this machine, as far as this user may read it."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

from oomph.faults.evidence.evidence import Evidence
from oomph.faults.reading.log import Words, read_log

ORIGIN = "kernel log"
_COMMANDS = (
    ("journalctl", "--dmesg", "--no-pager", "--lines=20000", "--output=short-iso"),
    ("dmesg",),
)
_FILES = (Path("/var/log/kern.log"),)
_PATIENCE_SECONDS = 10


def read_kernel_log(words: Words | None = None) -> Iterator[Evidence]:
    """The kernel's messages since the last start. OSError when nothing lets this user read them."""
    yield from read_log(io.BytesIO(_messages()), ORIGIN, words)


def _messages() -> bytes:
    for command in _COMMANDS:
        try:
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout
    for path in _FILES:
        if path.is_file():
            return path.read_bytes()
    raise PermissionError("neither journalctl nor dmesg shows it to this user; give its file: --kernel-log FILE")
