"""The faults that can be rehearsed, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rehearsable:
    """One fault, what it does to the script, and what shows that oomph noticed it."""

    name: str
    what: str
    """What happens to the script."""
    fault: str
    """The name under which the summary of the run has to count it; empty when it ends no attempt."""
    event: str = ""
    """An event that the journal has to contain; empty when none is required."""


FAULTS = (
    Rehearsable(
        "oom", "a step runs out of memory, and so does every micro-batch of more than half of its batch", "device-oom"
    ),
    Rehearsable("kill", "kill -9", "killed", "resumed"),
    Rehearsable("abort", "abort, as after a failed check in CUDA code", "abort", "resumed"),
    Rehearsable("hang", "a step never ends", "hang", "resumed"),
    Rehearsable("nan", "a weight turns NaN", "", "checkpoint-skipped"),
    Rehearsable(
        "corrupt-checkpoint", "a bit of the newest checkpoint flips, then kill -9", "killed", "checkpoint-refused"
    ),
    Rehearsable("disk-full", "no further checkpoint can be written", "", "checkpoint-failed"),
    Rehearsable("lost-gpu", "abort, and one GPU less after it", "abort", "resumed"),
)
NAMES = tuple(fault.name for fault in FAULTS)
