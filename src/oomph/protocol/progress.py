"""Defines what the script process reports while it runs: heartbeats with its phase, and a progress board.

The board is a memory-mapped file of a few integers that is updated after every step. An update takes well under a
microsecond and survives `kill -9` of the writer, so it is known exactly which steps a crash has lost.
"""

from __future__ import annotations

import enum
import mmap
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import open_own
from oomph.terminal.amounts import counted

RECORD = struct.Struct("<BBxxiixxxxqq")
"""The layout of a heartbeat: phase, powers, PID, fit, time in ns, longest silence in ns. It is short enough to be
written to a pipe atomically."""
_LAYOUT = struct.Struct("<9q")
PROGRESS = "progress"
"""The name of the board in a run directory."""
_MAGIC = 0x6F6F6D7068_02  # "oomph", the second kind of board


class Phase(enum.IntEnum):
    """The script process's current activity. Each phase has its own time limit, which is learned during the run."""

    OWN_CODE = 0
    """The script is outside any fit or loop, where oomph does not judge its progress."""
    FIRST_STEP = 1
    """The first step of a fit, or a step that has to be traced and compiled again."""
    TRACING = 2
    STEP = 3
    EPOCH_START = 4
    """The time until the end of an epoch's first step, while shuffle buffers fill up."""
    EPOCH_END = 5
    """The time between the last step of an epoch and the next epoch, while callbacks run."""
    VALIDATION_START = 6
    """The time until the end of the first step of a validation."""
    VALIDATION = 7
    CHECKPOINT = 8
    RESUMING = 9
    LOOP = 10
    """Steps of a custom training loop."""
    RECOVERING = 11
    """The time from an out-of-memory error in a step to its completion. Every further error takes TensorFlow 10 s."""

    @property
    def words(self) -> str:
        """The phase as it appears in a sentence, such as "in a step"."""
        return _WORDS[self]


_WORDS = {
    Phase.OWN_CODE: "in the script's own code",
    Phase.FIRST_STEP: "in a first step",
    Phase.TRACING: "while tracing",
    Phase.STEP: "in a step",
    Phase.EPOCH_START: "at the start of an epoch",
    Phase.EPOCH_END: "at the end of an epoch",
    Phase.VALIDATION_START: "at the start of validation",
    Phase.VALIDATION: "during validation",
    Phase.CHECKPOINT: "while writing a checkpoint",
    Phase.RESUMING: "while resuming",
    Phase.LOOP: "in the training loop",
    Phase.RECOVERING: "while recovering from an out-of-memory error",
}

_ONCE = frozenset((Phase.FIRST_STEP, Phase.EPOCH_START, Phase.EPOCH_END, Phase.VALIDATION_START))
_WITHIN = frozenset((Phase.TRACING, Phase.RESUMING, Phase.CHECKPOINT, Phase.VALIDATION_START))


def has_been_timed(before: Phase, after: Phase) -> bool:
    """True if the time from the start of one phase to that of the next is the full duration of the first.

    A first step, for example, continues after tracing. A step that ran out of memory does not count either, since it
    waited ten seconds or more for memory.
    """
    return after is not Phase.RECOVERING and not (before in _ONCE and after in _WITHIN)


class Power(enum.IntFlag):
    """The requests that the script process can handle."""

    NONE = 0
    CHECKPOINT_ON_TERM = 1
    """Save and exit between two steps after SIGTERM."""
    CHECKPOINT_ON_USR1 = 2
    """Save and exit between two steps after SIGUSR1."""
    CHECKPOINT_ON_INT = 4
    """Save between two steps after SIGINT, then raise KeyboardInterrupt."""


class Beat(NamedTuple):
    """One heartbeat."""

    phase: Phase
    powers: Power
    pid: int
    fit: int
    """The number of the fit, counted from 0, or −1 outside any fit."""
    at_ns: int
    """The sender's `time.monotonic_ns()`."""
    longest_ns: int
    """The longest time without progress since the previous heartbeat, in that heartbeat's phase, in nanoseconds."""

    def pack(self) -> bytes:
        """Pack the heartbeat into bytes."""
        return RECORD.pack(self.phase, self.powers, self.pid, self.fit, self.at_ns, self.longest_ns)


def unpack(data: bytes) -> list[Beat]:
    """Return the heartbeats in `data`, skipping incomplete and unknown ones."""
    whole = len(data) - len(data) % RECORD.size
    beats = []
    for phase, powers, pid, fit, at_ns, longest_ns in RECORD.iter_unpack(data[:whole]):
        try:
            beats.append(Beat(Phase(phase), Power(powers), pid, fit, at_ns, longest_ns))
        except ValueError:
            continue
    return beats


class Progress(NamedTuple):
    """The script process's position. `steps` spans all fits in the run, and never decreases within an attempt."""

    attempt: int = 0
    fit: int = -1
    """The number of the current or last fit, counted from 0, or -1 if none has started."""
    epoch: int = 0
    step: int = 0
    """The number of steps committed in this epoch, which is also the number of the next step."""
    steps: int = 0
    """The number of steps committed in all fits so far, including steps from earlier attempts that were not lost."""
    saved: int = 0
    """The value of `steps` in the newest checkpoint."""
    heartbeat_ns: int = 0
    """The `time.monotonic_ns()` of the last write, comparable across processes until the next boot."""
    is_epoch_over: bool = False
    """True if all steps of the epoch are done, and validation and callbacks follow."""

    @property
    def in_words(self) -> str:
        """The place of the training, and how many of its steps are saved."""
        at = place_in_words(self.fit, self.epoch, self.step, self.is_epoch_over)
        place = f"at {at}" if self.fit >= 0 else "in a training loop"
        return f"{place} ({counted(self.steps, 'step')} done, {self.saved:,} saved)"


def place_in_words(fit: int, epoch: int, step: int, is_epoch_over: bool = False) -> str:
    """Describe the position of a step, counted from 1, or the end of its epoch."""
    if is_epoch_over:
        return f"the end of epoch {epoch + 1} of fit {fit + 1}"
    return f"fit {fit + 1}, epoch {epoch + 1}, step {step + 1}"


class ProgressBoard:
    """The writable side of the progress board, used by the attempt's owner."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        fd = open_own(run_dir, PROGRESS, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, _LAYOUT.size)  # otherwise, a hole could cause a SIGBUS later, if the disk is full
            os.ftruncate(fd, _LAYOUT.size)
            self._map = mmap.mmap(fd, _LAYOUT.size)
        finally:
            os.close(fd)
        self._attempt = attempt

    def close(self) -> None:
        """Close the file. Nothing can be written afterwards."""
        self._map.close()

    def write(self, fit: int, epoch: int, step: int, steps: int, saved: int, is_epoch_over: bool = False) -> None:
        """Write the current position."""
        now = time.monotonic_ns()
        _LAYOUT.pack_into(self._map, 0, _MAGIC, self._attempt, fit, epoch, step, steps, saved, now, is_epoch_over)

    def count_step(self, restored: int = 0) -> int:
        """Count one more step outside any fit, and return the new total.

        `restored` is the number of steps that the script had done before this process started.
        """
        magic, attempt, fit, epoch, step, steps, saved, *_ = _LAYOUT.unpack_from(self._map, 0)
        if magic != _MAGIC:
            fit, epoch, step, steps, saved = -1, 0, restored, restored, 0
        elif attempt != self._attempt:  # a loop only resumes what the script itself restores
            fit, epoch, step, steps = -1, 0, restored, restored
        self.write(fit, epoch, step + 1, steps + 1, saved)
        return int(steps) + 1


def read_progress(run_dir: Path) -> Progress | None:
    """Return the position that was last written, or None if there is no board or it has a different format."""
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
