"""Decides which of several workers' endings is the cause, and which only follow from it. Pure.

The workers of a gang fail together: when one dies, the others lose their connection to it and fail as well, sometimes
before the kernel reports the death. So the order in time decides only among endings of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.run.policy.decide import Ending, is_crash

CONSEQUENCES = frozenset(("worker-lost", "nccl-failure"))
"""Faults with which a worker notices that another one has failed."""
OF_THE_GANG = CONSEQUENCES | {"port-in-use"}
"""Faults between the workers, which are not the script's own error. The next attempt has other ports."""


@dataclass(frozen=True)
class WorkerEnding:
    """The ending of one worker that failed."""

    rank: int
    ending: Ending
    is_frozen: bool = False
    """True if the process was stopped, as by SIGSTOP, while the others failed."""


def cause_of(failures: Sequence[WorkerEnding]) -> WorkerEnding:
    """Return the failure that explains the others, of at least one, given in the order in which they were noticed."""
    return min(failures, key=_distance)


def _distance(failure: WorkerEnding) -> int:
    """Return how far a failure may be from the cause: a hang, a loss or a crash does not follow from another's end."""
    ending = failure.ending
    if ending.hung or ending.preempted or ending.lost:
        return 0
    if ending.fault in CONSEQUENCES and not failure.is_frozen:
        return 4
    if is_crash(ending.returncode) and not failure.is_frozen:
        return 1
    return 2 if failure.is_frozen else 3
