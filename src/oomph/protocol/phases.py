"""The phases of a training, and the heartbeat record that carries them from the script process to the supervisor."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

RECORD = struct.Struct("<BBxxiixxxxqq")
"""The layout of a heartbeat: phase, powers, pid, fit, time in ns, longest silence in ns. Shorter than a pipe's
atomic write."""


class Phase(enum.IntEnum):
    """The activity of the script process. Each phase has its own time limit, learned during the run."""

    OWN_CODE = 0
    """The script runs outside any fit or loop, where oomph does not judge what it does."""
    FIRST_STEP = 1
    """The first step of a fit, or a step that had to be traced and compiled again."""
    TRACING = 2
    STEP = 3
    EPOCH_START = 4
    """From the beginning of an epoch to the end of its first step: shuffle buffers fill in this time."""
    EPOCH_END = 5
    """From the last step of an epoch to the next epoch: callbacks."""
    VALIDATION_START = 6
    """From the beginning of a validation to the end of its first step."""
    VALIDATION = 7
    CHECKPOINT = 8
    RESUMING = 9
    LOOP = 10
    """Steps of the script's own training loop."""
    RECOVERING = 11
    """From running out of memory in a step to its completion: each further error takes TensorFlow 10 s."""

    @property
    def words(self) -> str:
        """The words for the phase within a sentence: "in a step"."""
        return _WORDS[self]


_WORDS = {
    Phase.OWN_CODE: "in the script's own code",
    Phase.FIRST_STEP: "in a first step",
    Phase.TRACING: "while tracing",
    Phase.STEP: "in a step",
    Phase.EPOCH_START: "at the start of an epoch",
    Phase.EPOCH_END: "at the end of an epoch",
    Phase.VALIDATION_START: "at the start of a validation",
    Phase.VALIDATION: "in a validation",
    Phase.CHECKPOINT: "while writing a checkpoint",
    Phase.RESUMING: "while resuming",
    Phase.LOOP: "in the training loop",
    Phase.RECOVERING: "while recovering from out of memory",
}


_ONCE = frozenset((Phase.FIRST_STEP, Phase.EPOCH_START, Phase.EPOCH_END, Phase.VALIDATION_START))
_WITHIN = frozenset((Phase.TRACING, Phase.RESUMING, Phase.CHECKPOINT, Phase.VALIDATION_START))


def has_been_timed(before: Phase, after: Phase) -> bool:
    """True if the time from one phase to the next is the full duration of the first.

    A first step continues after tracing. A step that failed for lack of memory waited for it for ten seconds or more.
    """
    return after is not Phase.RECOVERING and not (before in _ONCE and after in _WITHIN)


class Power(enum.IntFlag):
    """The requests that the script process can serve."""

    NONE = 0
    CHECKPOINT_ON_TERM = 1
    """Save and exit between two steps after SIGTERM."""
    CHECKPOINT_ON_USR1 = 2
    """Save and exit between two steps after SIGUSR1."""
    CHECKPOINT_ON_INT = 4
    """Save between two steps after SIGINT, then raise KeyboardInterrupt."""


@dataclass(frozen=True)
class Beat:
    """One heartbeat."""

    phase: Phase
    powers: Power
    pid: int
    fit: int
    """The number of the fit, counted from 0; −1 outside any fit."""
    at_ns: int
    """The `time.monotonic_ns()` of the sender."""
    longest_ns: int
    """The longest time without progress since the last record, in that record's phase, in nanoseconds."""

    def pack(self) -> bytes:
        """The bytes of the record."""
        return RECORD.pack(self.phase, self.powers, self.pid, self.fit, self.at_ns, self.longest_ns)


def unpack(data: bytes) -> list[Beat]:
    """The records in these bytes, without incomplete and unknown ones."""
    whole = len(data) - len(data) % RECORD.size
    beats = []
    for phase, powers, pid, fit, at_ns, longest_ns in RECORD.iter_unpack(data[:whole]):
        try:
            beats.append(Beat(Phase(phase), Power(powers), pid, fit, at_ns, longest_ns))
        except ValueError:
            continue
    return beats
