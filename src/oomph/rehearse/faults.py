"""The faults that can be rehearsed, as data."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.journal.events import CheckpointFailed, CheckpointRefused, CheckpointSkipped, Resumed
from oomph.journal.fact import Fact


@dataclass(frozen=True)
class Rehearsable:
    """One fault, its effect on the script, and the sign that oomph noticed it."""

    name: str
    what: str
    """The effect on the script."""
    fault: str
    """The name under which the run's summary must count it; empty if it ends no attempt."""
    event: type[Fact] | None = None
    """The event that the journal must contain, if any."""


FAULTS = (
    Rehearsable(
        "oom", "a step runs out of memory, and so does every micro-batch of more than half of its batch", "device-oom"
    ),
    Rehearsable("kill", "kill -9", "killed", Resumed),
    Rehearsable("abort", "abort, as after a failed check in CUDA code", "abort", Resumed),
    Rehearsable("hang", "a step never ends", "hang", Resumed),
    Rehearsable("nan", "a weight turns NaN", "", CheckpointSkipped),
    Rehearsable(
        "corrupt-checkpoint", "a bit of the newest checkpoint flips, then kill -9", "killed", CheckpointRefused
    ),
    Rehearsable("disk-full", "no further checkpoint can be written", "", CheckpointFailed),
    Rehearsable("lost-gpu", "abort, and one GPU less after it", "abort", Resumed),
)
NAMES = tuple(fault.name for fault in FAULTS)
