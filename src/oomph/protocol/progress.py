"""Progress: a board of a few integers that the script process writes after every step and the supervisor reads.

It is a memory-mapped file: a write costs well under a microsecond and survives `kill -9` of the writer, so the steps
lost in a crash are known exactly.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from oomph.files.opening import open_own

_LAYOUT = struct.Struct("<9q")
PROGRESS = "progress"
"""The name of the board in a run directory."""
_MAGIC = 0x6F6F6D7068_02  # "oomph", and which of its boards


@dataclass(frozen=True)
class Progress:
    """Position of the script process. `steps` counts over all fits of the run and never decreases within an attempt."""

    attempt: int = 0
    fit: int = -1
    """The number of the current or last fit, counted from 0; -1: none has started."""
    epoch: int = 0
    step: int = 0
    """The number of steps committed in the epoch, which is also that of the next step."""
    steps: int = 0
    """The number of steps committed in all fits so far, including those of earlier attempts that were not lost."""
    saved: int = 0
    """The value of `steps` in the newest checkpoint."""
    heartbeat_ns: int = 0
    """The `time.monotonic_ns()` of the last write, comparable between processes of one boot."""
    is_epoch_over: bool = False
    """True if the steps of the epoch are done: validation and callbacks follow."""


def place_in_words(fit: int, epoch: int, step: int, is_epoch_over: bool = False) -> str:
    """The place of a step in words, counted from 1, or the end of its epoch."""
    if is_epoch_over:
        return f"the end of epoch {epoch + 1} of fit {fit + 1}"
    return f"fit {fit + 1}, epoch {epoch + 1}, step {step + 1}"


class ProgressBoard:
    """The writing end, held by the owner process of the run."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        fd = open_own(run_dir, PROGRESS, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, _LAYOUT.size)  # a hole that a full disk cannot fill would be a SIGBUS later
            os.ftruncate(fd, _LAYOUT.size)
            self._map = mmap.mmap(fd, _LAYOUT.size)
        finally:
            os.close(fd)
        self._attempt = attempt

    def write(self, fit: int, epoch: int, step: int, steps: int, saved: int, is_epoch_over: bool = False) -> None:
        """Write the current position."""
        now = time.monotonic_ns()
        _LAYOUT.pack_into(self._map, 0, _MAGIC, self._attempt, fit, epoch, step, steps, saved, now, is_epoch_over)

    def count_step(self, restored: int = 0) -> int:
        """Count one more step outside any fit, and return the new total.

        `restored`: steps that the script had done before this process began.
        """
        magic, attempt, fit, epoch, step, steps, saved, *_ = _LAYOUT.unpack_from(self._map, 0)
        if magic != _MAGIC:
            fit, epoch, step, steps, saved = -1, 0, restored, restored, 0
        elif attempt != self._attempt:  # of a loop, only what the script itself restores is resumed
            fit, epoch, step, steps = -1, 0, restored, restored
        self.write(fit, epoch, step + 1, steps + 1, saved)
        return int(steps) + 1


def read_progress(run_dir: Path) -> Progress | None:
    """The last position written; None if there is no board or it has another format."""
    try:
        with os.fdopen(open_own(run_dir, PROGRESS, os.O_RDONLY), "rb") as file:
            raw = file.read(_LAYOUT.size + 1)
    except OSError:
        return None
    if len(raw) != _LAYOUT.size:
        return None
    magic, attempt, fit, epoch, step, steps, saved, heartbeat_ns, is_epoch_over = _LAYOUT.unpack(raw)
    if magic != _MAGIC:
        return None
    return Progress(attempt, fit, epoch, step, steps, saved, heartbeat_ns, bool(is_epoch_over))
