"""Decides which of several workers' endings is the cause, and which only follow from it. Pure.

The workers of a gang fail together: when one dies, the others lose their connection to it and fail as well, sometimes
before the kernel reports the death. So the order in time decides only among endings of the same kind.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oomph.run.policy.decide import (
    REQUEUE_EXIT_CODE,
    Action,
    Ending,
    Finish,
    GiveUp,
    Requeue,
    Restart,
    is_crash,
)
from oomph.terminal.amounts import counted
from oomph.terminal.endings import ProcessEnd

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


def left_alone(who: str, after: Sequence[tuple[str, int]]) -> str:
    """Return why a worker lost the others although none has failed, or an empty string if none had finished.

    Args:
        who: the worker that was left.
        after: each worker that had finished by then, and its number of steps, 0 if unknown.
    """
    if not after:
        return ""
    first, steps = after[0]
    at = f" after {counted(steps, 'step')}" if steps else ""
    return f"{first} ended with exit code 0{at} while {who} still trained: the workers take different numbers of steps"


class WorkerOutcome(NamedTuple):
    """The end of one worker in a gang that a scheduler has started."""

    rank: int
    host: str
    exit_code: int
    """The exit code of its `oomph run`, unless another worker's failure changes that."""
    returncode: int
    """The return code of its script as in `subprocess`."""
    fault: str
    is_consequence: bool
    """True if it failed, or was ended, because another worker had failed."""
    was_asked: bool
    """True if the user or the scheduler asked it to stop."""

    @property
    def who(self) -> str:
        """The worker and its machine, for a sentence."""
        return f"worker {self.rank} on {self.host}"


def outcome_of(rank: int, host: str, ending: Ending, action: Action) -> WorkerOutcome:
    """Return how a worker ended, for the others."""
    if isinstance(action, Restart) or _is_scheduler_signal(ending):
        action = Requeue("")
    code = action.exit_code
    is_consequence = code == REQUEUE_EXIT_CODE and ending.fault in CONSEQUENCES
    was_asked = bool(ending.stopped or ending.preempted or _is_scheduler_signal(ending))
    return WorkerOutcome(rank, host, code, ending.returncode, ending.fault, is_consequence, was_asked)


def first_cause(outcomes: Sequence[WorkerOutcome]) -> WorkerOutcome | None:
    """Return the failure that decides what becomes of the gang, or None if no worker has failed by itself."""
    causes = [each for each in outcomes if each.exit_code != 0 and not each.is_consequence]
    return min(causes, key=lambda each: (each.exit_code == REQUEUE_EXIT_CODE, each.rank), default=None)


def concluded(
    action: Action, ending: Ending, own: WorkerOutcome, others: Sequence[WorkerOutcome], missing: Sequence[int]
) -> Action:
    """Return what a worker does that cannot start again alone, since the scheduler starts all of them or none.

    Args:
        action: what a process that is alone would do.
        ending: how this worker ended.
        own: the same, as the others know it.
        others: how the other workers ended, as far as that is known.
        missing: the ranks of those of which nothing is known, although this one has waited for them.
    """
    if isinstance(action, GiveUp):
        return GiveUp(f"{own.who} cannot go on ({action.reason})", action.exit_code)
    if ending.interrupted:
        return action
    is_done, cause = action == Finish(0), first_cause(others)
    if isinstance(action, Finish) and not is_done and not _is_scheduler_signal(ending):
        return action
    if cause is not None and cause.exit_code != REQUEUE_EXIT_CODE:
        return GiveUp(f"{_failed(cause)}, which another start would repeat")
    finished = [(each.who, 0) for each in [own, *others] if each.exit_code == 0]
    left = [each.who for each in [own, *others] if each.is_consequence]
    if cause is None and not missing and finished and left and (is_done or ending.fault in CONSEQUENCES):
        return GiveUp(left_alone(left[0], finished))
    if is_done:
        if cause is None and not missing:
            return action
        late = f"worker {missing[0]} has not reported its end" if cause is None else _failed(cause)
        return Requeue(f"{late}, after this one had finished")
    is_asked_late = not isinstance(action, Restart) and cause is not None and not cause.was_asked
    if cause is not None and (is_asked_late or ending.fault in CONSEQUENCES):
        return Requeue(_failed(cause))
    if isinstance(action, Finish):
        return Requeue(f"{own.who} was stopped by {ProcessEnd(ending.returncode).name}")
    if isinstance(action, Restart) or own.was_asked:
        return Requeue(_failed(own))
    return Requeue(f"{own.who} cannot go on ({action.reason})")


def _is_scheduler_signal(ending: Ending) -> bool:
    """True if a signal of the scheduler ended the script, which did not save in time."""
    was_asked = ending.returncode == -signal.SIGUSR1 or (ending.stopped and ending.returncode < 0)
    return was_asked and not ending.interrupted


def _failed(outcome: WorkerOutcome) -> str:
    if outcome.was_asked:
        return f"{outcome.who} was stopped by the scheduler"
    end = ProcessEnd(outcome.returncode)
    fault = "" if outcome.fault in ("", end.name) else f" ({outcome.fault})"
    return f"{outcome.who} {end.problem}{fault}"
