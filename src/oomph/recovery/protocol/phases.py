"""The phases of a training, and the record by which the script's process tells the supervisor which one it is in."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

RECORD = struct.Struct("<BBxxiixxxxqq")
"""phase, powers, pid, fit, time in ns, longest silence in ns. Shorter than a pipe's atomic write."""


class Phase(enum.IntEnum):
    """What the script's process is doing. Each has a time limit of its own, learned as the run goes on."""

    OWN_CODE = 0
    """Outside of any fit or loop: what the script does there is its own affair."""
    FIRST_STEP = 1
    """The first step of a fit, or one that had to be traced and compiled anew."""
    TRACING = 2
    STEP = 3
    EPOCH_START = 4
    """Up to the end of the first step of an epoch: shuffle buffers fill here."""
    EPOCH_END = 5
    """From the last step of an epoch to the next epoch: callbacks."""
    VALIDATION_START = 6
    """Up to the end of its first step."""
    VALIDATION = 7
    CHECKPOINT = 8
    RESUMING = 9
    LOOP = 10
    """Steps of a training loop of the script's own."""
    RECOVERING = 11
    """A step that has run out of memory, until it is completed: each further error takes TensorFlow 10 s."""

    @property
    def words(self) -> str:
        """The phase in a sentence: "in a step"."""
        return _WORDS[self]


_WORDS = {
    Phase.OWN_CODE: "in the script's own code",
    Phase.FIRST_STEP: "in a first step",
    Phase.TRACING: "in tracing",
    Phase.STEP: "in a step",
    Phase.EPOCH_START: "at the start of an epoch",
    Phase.EPOCH_END: "at the end of an epoch",
    Phase.VALIDATION_START: "at the start of a validation",
    Phase.VALIDATION: "in a validation",
    Phase.CHECKPOINT: "in writing a checkpoint",
    Phase.RESUMING: "in resuming",
    Phase.LOOP: "in the training loop",
    Phase.RECOVERING: "in recovering from out of memory",
}


_ONCE = frozenset((Phase.FIRST_STEP, Phase.EPOCH_START, Phase.EPOCH_END, Phase.VALIDATION_START))
_WITHIN = frozenset((Phase.TRACING, Phase.RESUMING, Phase.CHECKPOINT, Phase.VALIDATION_START))


def has_been_timed(before: Phase, after: Phase) -> bool:
    """Whether the time until a phase gave way to another is all that it takes.

    A first step goes on after tracing; and a step that has failed for memory has waited for it, ten seconds or more.
    """
    return after is not Phase.RECOVERING and not (before in _ONCE and after in _WITHIN)


class Power(enum.IntFlag):
    """What the script's process can do when it is told to."""

    NONE = 0
    CHECKPOINT_ON_TERM = 1
    """Save and end at the next border between two steps after SIGTERM."""
    CHECKPOINT_ON_USR1 = 2
    """The same after SIGUSR1."""


@dataclass(frozen=True)
class Beat:
    """One heartbeat."""

    phase: Phase
    powers: Power
    pid: int
    fit: int
    """Ordinal of the fit; −1 outside of any."""
    at_ns: int
    """`time.monotonic_ns()` of the sender."""
    longest_ns: int
    """The longest time without a sign of progress since the record before, in the phase of that one."""

    def pack(self) -> bytes:
        """The bytes of the record."""
        return RECORD.pack(self.phase, self.powers, self.pid, self.fit, self.at_ns, self.longest_ns)


def unpack(data: bytes) -> list[Beat]:
    """The records in these bytes; an incomplete or unknown one is left out."""
    whole = len(data) - len(data) % RECORD.size
    beats = []
    for phase, powers, pid, fit, at_ns, longest_ns in RECORD.iter_unpack(data[:whole]):
        try:
            beats.append(Beat(Phase(phase), Power(powers), pid, fit, at_ns, longest_ns))
        except ValueError:
            continue
    return beats
