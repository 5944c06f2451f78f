"""Decides what to do after an attempt: `decide(ending, ledger, conditions, allowed) -> Action`.

Pure; runs in the supervisor process. These limits keep a run from restarting forever:

- Each fault has a ladder (`ladder.py`). Once its rungs are used up, oomph gives up. When the run commits more steps
  than ever before, every fault gets its rungs back: a run that makes progress is worth continuing, however often it is
  interrupted.
- In total: at most MOST_WITHOUT_CHECKPOINT restarts in a row without a newer checkpoint, whatever the faults, and at
  most MOST_IN_ALL restarts of one run.
- Never started: one restart if an attempt ends before its first fit. A failure before any training, such as in
  `import tensorflow`, seldom goes away.
- Poison step: a step that fails twice with the same fault on the same data is not tried again in the same way.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oomph.protocol.progress import place_in_words
from oomph.run.policy.ladder import LADDERS, OPT_IN, Change, Conditions, climb, why_not, why_undivided
from oomph.terminal.amounts import times
from oomph.terminal.endings import ProcessEnd

GAVE_UP_EXIT_CODE = 93
"""The exit code if oomph gave up because another start would only repeat the fault: do not requeue."""
REQUEUE_EXIT_CODE = 75
"""The exit code if a restart elsewhere or later may help: requeue."""
MOST_WITHOUT_CHECKPOINT = 20
MOST_IN_ALL = 1000
MOST_NEVER_STARTED = 1

CRASH_SIGNALS = frozenset((signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
"""Signals that indicate a crash or a kill. SIGINT, SIGTERM and the like are requests."""
FROM_OUTSIDE = frozenset(
    (
        "killed", "host-oom", "hardware-fault", "device-oom-other-process", "nccl-failure", "worker-lost",
        "thermal-throttle",
    )
)  # fmt: skip
"""Faults that are not caused by the step at which they occur, and so never make it a poison step."""
ELSEWHERE = frozenset(("hardware-fault", "device-oom-other-process", "thermal-throttle", "driver-library-mismatch"))
"""Faults of this machine. Once their remedies are used up, another machine may help."""

Place = tuple[int, int, int]
"""The position of a step: fit, epoch and step, counted from 0."""


@dataclass(frozen=True)
class Finish:
    """Exit with the script's exit code, because the script exited on its own."""

    exit_code: int


@dataclass(frozen=True)
class Restart:
    """Start the script again, unchanged or with one change."""

    reason: str
    change: Change | None = None
    rung: int = 0
    """The index of the change on the fault's ladder."""


@dataclass(frozen=True)
class GiveUp:
    """Stop for good: another start would only repeat the fault."""

    reason: str
    exit_code: int = GAVE_UP_EXIT_CODE


@dataclass(frozen=True)
class Requeue:
    """Stop for now: the run has not finished, but cannot continue here or at this time."""

    reason: str
    exit_code: int = REQUEUE_EXIT_CODE


Action = Finish | Restart | GiveUp | Requeue


@dataclass(frozen=True)
class Ending:
    """The end of an attempt: its diagnosis, and how far training got."""

    returncode: int
    """The return code as in `subprocess`: −n for death by signal n."""
    fault: str
    """The fault that ended the attempt, such as "host-oom" or "device-oom", or "SIGKILL" if nothing more is known."""
    started: bool = True
    """False if the attempt ended before it reached a fit or committed a step."""
    steps: int = 0
    """The number of steps committed so far, over all attempts."""
    saved: int = 0
    """The number of steps in the newest checkpoint."""
    stopped: bool = False
    """True if the user or the scheduler asked the script to stop."""
    interrupted: bool = False
    """True if Ctrl-C stopped the script, even if oomph then had to send a stronger signal."""
    called_off: int = 0
    """The signal that stopped the run once the script had exited, or 0 if there was none."""
    preempted: str = ""
    """The signal with which a scheduler preempted training, or an empty string if it did not."""
    hung: bool = False
    """True if oomph ended the script because it made no progress."""
    lost: bool = False
    """True if the machine on which the worker ran, or its place there, is gone. How it ended is unknown."""
    context_lost: bool = False
    """True if the attempt ended with an error that leaves its GPU context, or its process, unusable."""
    not_compiled: bool = False
    """True if the attempt ended with an XLA compiler error, which recurs unless XLA is turned off."""
    in_pieces: bool = False
    """True if the guard gave up although enough memory was free, but in pieces that another allocator may join."""
    restart_requested: str = ""
    """The reason why the script's guard requested a new process, or an empty string if it did not."""
    micro_batch: int | None = None
    """The micro-batch size that the new process starts with, or None if batches stay as they were."""
    unkillable: str = ""
    """The reason why the script's process survives SIGKILL, or an empty string if it doesn't."""
    gave_up: str = ""
    """The reason why another start would repeat the error from which the script died, or an empty string if unknown."""
    place: Place | None = None
    """The step that was running, or None if unknown."""
    epoch_over: bool = False
    """True if all steps of the epoch were done, so that `place` is the end of the epoch."""
    same_data: bool = False
    """True if that step receives the same samples in every attempt."""
    worker: int | None = None
    """The rank of the worker whose ending this is, the first of several to fail, or None if there is only one."""
    between_workers: bool = False
    """True if the fault lies between the workers, such as a lost connection, and not in this worker's script."""


@dataclass(frozen=True)
class Ledger:
    """The restarts so far, with what they used up and what they achieved."""

    restarts: Mapping[str, int] = field(default_factory=dict)
    """The number of restarts for each fault since the run last made progress."""
    rungs: Mapping[str, int] = field(default_factory=dict)
    """The index of each fault's first unused rung since the run last made progress."""
    changes: tuple[Change, ...] = ()
    """The changes made since the first attempt. Progress does not undo them."""
    failed_at: Place | None = None
    """The step at which the last attempt failed, or None if it won't receive the same data again."""
    failed_by: str = ""
    """The name of the fault that made that step fail."""
    best_steps: int = 0
    """The largest number of committed steps at the end of a failed attempt."""
    best_saved: int = 0
    """The largest number of checkpointed steps at the end of a failed attempt."""
    without_checkpoint: int = 0
    """The number of restarts in a row without a newer checkpoint."""
    never_started: int = 0
    """The number of attempts in a row that ended before their first fit."""
    total: int = 0
    """The number of restarts in the whole run."""

    def as_data(self) -> dict[str, Any]:
        """Return the ledger as JSON, for the journal."""
        return asdict(self)


def decide(
    ending: Ending, ledger: Ledger, conditions: Conditions | None = None, allowed: Collection[str] = ()
) -> Action:
    """Decide what to do after an attempt has ended.

    Args:
        ending: how the attempt ended.
        ledger: the ledger before this ending; see `record`.
        conditions: the conditions that determine what can be changed for the next attempt.
        allowed: the changes that alter the mathematics (`ladder.OPT_IN`) and that the user has allowed.
    """
    return hindered(_interrupted(_decide(ending, ledger, conditions or Conditions(), allowed), ending), ending)


def hindered(action: Action, ending: Ending) -> Action:
    """Return the decision, or a different one if a process could not be killed or a signal called off the restart."""
    if ending.unkillable:  # another start would be a second writer
        return _interrupted(Requeue(f"{ending.unkillable}; not restarting while it may still write"), ending)
    if isinstance(action, Restart) and ending.called_off:
        return _called_off(ending)
    return action


def _interrupted(action: Action, ending: Ending) -> Action:
    """Finish with the exit code that shells expect after Ctrl-C, unless the script chose its own."""
    harder = isinstance(action, Requeue) or ending.returncode in (-signal.SIGTERM, -signal.SIGKILL)
    if ending.interrupted and harder and not isinstance(action, Restart | GiveUp):
        return Finish(128 + signal.SIGINT)
    return action


def _called_off(ending: Ending) -> Action:
    """Return the action for a signal that arrived while there was no script to forward it to."""
    if ending.called_off == signal.SIGTERM and ending.started:
        return Requeue("preempted by SIGTERM before the next start")
    return Finish(128 + ending.called_off)


def _decide(ending: Ending, ledger: Ledger, conditions: Conditions, allowed: Collection[str]) -> Action:
    if ending.preempted:
        return Requeue(f"preempted by {ending.preempted}")
    if ending.stopped:
        return Finish(ProcessEnd(ending.returncode).exit_code)
    ledger = refill(ending, ledger)
    curable = _is_curable(ending, ledger, conditions)
    if ending.gave_up and not curable:
        return GiveUp(ending.gave_up)
    if not curable and not _may_restart(ending):
        return Finish(ProcessEnd(ending.returncode).exit_code)
    return _within_budget(ending, ledger, conditions, allowed)


def record(ending: Ending, action: Action, ledger: Ledger) -> Ledger:
    """Return the ledger after the action."""
    if not isinstance(action, Restart):
        return ledger
    ledger = refill(ending, ledger)
    return replace(
        ledger,
        restarts={**ledger.restarts, ending.fault: ledger.restarts.get(ending.fault, 0) + 1},
        rungs={**ledger.rungs, ending.fault: action.rung + 1},
        changes=ledger.changes if action.change is None else (*ledger.changes, action.change),
        failed_at=ending.place if ending.same_data else None,
        failed_by=ending.fault,
        without_checkpoint=ledger.without_checkpoint + 1,
        never_started=0 if ending.started else ledger.never_started + 1,
        total=ledger.total + 1,
    )


def without_unasked(ledger: Ledger, allowed: Collection[str]) -> Ledger:
    """Return an earlier start's ledger without the changes to the mathematics that this start does not allow."""
    kept = tuple(change for change in ledger.changes if change.name not in OPT_IN or change.name in allowed)
    return replace(ledger, changes=kept)


def refill(ending: Ending, ledger: Ledger) -> Ledger:
    """Reset the budgets after new progress. Neither standing still nor repeating steps counts as progress."""
    if ending.steps > ledger.best_steps:
        ledger = replace(ledger, restarts={}, rungs={}, best_steps=ending.steps)
    if ending.saved > ledger.best_saved:
        ledger = replace(ledger, without_checkpoint=0, best_saved=ending.saved)
    return ledger


def poison_step(ending: Ending, ledger: Ledger) -> str:
    """Return the position of a step that failed twice with the same fault on the same data, or an empty string."""
    again = ending.same_data and ending.place is not None and ending.place == ledger.failed_at
    if not again or ending.fault != ledger.failed_by or ending.fault in FROM_OUTSIDE:
        return ""
    return place_in_words(*(ending.place or (0, 0, 0)))


def is_crash(returncode: int) -> bool:
    """True if the process died from a signal after which a restart may help."""
    return -returncode in CRASH_SIGNALS


def _may_restart(ending: Ending) -> bool:
    """True if a fault, not the script itself, ended the attempt."""
    known = ending.restart_requested or ending.hung or ending.context_lost or ending.between_workers
    return bool(known) or is_crash(ending.returncode)


def _is_curable(ending: Ending, ledger: Ledger, conditions: Conditions) -> bool:
    """True if a change can still fix the error that ended the script. If not, the error is the script's own."""
    cures = (("no-xla", ending.not_compiled), ("allocator", ending.in_pieces))
    return any(ended and not why_not(name, conditions, ledger.changes, ()) for name, ended in cures)


def _within_budget(ending: Ending, ledger: Ledger, conditions: Conditions, allowed: Collection[str]) -> Action:
    if not ending.started and ledger.never_started >= MOST_NEVER_STARTED:
        who, count = "the script" if ending.worker is None else f"worker {ending.worker}", ledger.never_started + 1
        return _stop(ending, f"{who} ended before any training began, {times(count)} ({ending.fault})")
    if ledger.without_checkpoint >= MOST_WITHOUT_CHECKPOINT:
        return _stop(ending, f"{ledger.without_checkpoint} restarts in a row without a newer checkpoint")
    if ledger.total >= MOST_IN_ALL:
        return _stop(ending, f"{ledger.total} restarts in total")
    is_smaller = bool(ending.restart_requested) and ending.micro_batch is not None
    poison = "" if is_smaller else poison_step(ending, ledger)
    if poison and not is_smaller and _waits_for_others(ending, conditions):
        return _stop(ending, f"worker {ending.worker}: {_why_poison(poison, ending.fault, conditions, allowed)}")
    used = ledger.rungs.get(ending.fault, 0)
    rung = climb(ending.fault, used, conditions, ledger.changes, allowed, poison)
    if rung is not None:
        return Restart(ending.restart_requested or ending.fault, rung.change, rung.index)
    if is_smaller:  # the script starts with a smaller micro-batch than before, so this is not the same again
        return Restart(ending.restart_requested, None, max(0, used - 1))
    if poison:
        return _stop(ending, _why_poison(poison, ending.fault, conditions, allowed))
    spent = ledger.restarts.get(ending.fault, 0)
    undivided = _why_undivided(ending.fault, conditions)
    return _stop(ending, f"{ending.fault} {times(spent + 1)} without any progress in between{undivided}")


def _waits_for_others(ending: Ending, conditions: Conditions) -> bool:
    """True if a worker ran out of memory in a step that all take together, whose batch is not split on one alone."""
    return ending.worker is not None and ending.fault == "device-oom" and bool(conditions.refused)


def _why_undivided(fault: str, conditions: Conditions) -> str:
    """Explain why the batch was not split, or return an empty string if micro-batches could not fix the fault."""
    is_cure = "micro-batch" in LADDERS.get(fault, ()) and fault not in ELSEWHERE
    return f"; {why_undivided(conditions)}" if is_cure and conditions.refused else ""


def _why_poison(place: str, fault: str, conditions: Conditions, allowed: Collection[str]) -> str:
    if fault.startswith("device-oom"):
        needs = "it needs a smaller batch or more memory"
        return (
            f"{place} ran out of memory twice, with nothing left to change: {needs}{_why_undivided(fault, conditions)}"
        )
    hint = "" if "skip-batch" in allowed else f"; {OPT_IN['skip-batch']} would skip its batch"
    return f"poison step: {place} failed with {fault} twice on the same data{hint}"


def _stop(ending: Ending, reason: str) -> Action:
    return Requeue(f"{reason}: another machine may help") if ending.fault in ELSEWHERE else GiveUp(reason)
