"""decide(ending, ledger) -> Action: what to do after an attempt. Pure: no clock, no process, no file.

Three budgets keep a run from starting over for ever:

- per fault: MOST_PER_FAULT restarts. Refilled, for every fault, when an attempt got further than any failed one before
  it: a run that makes progress is worth going on with, however often it is interrupted.
- in all: MOST_WITHOUT_CHECKPOINT restarts in a row that no checkpoint further on came of. It stops runs that crawl:
  a few steps further each time, but nothing that lasts.
- never started: one restart when an attempt ends before its first fit. What fails there fails before any training,
  such as in `import tensorflow`, and seldom goes away.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

GAVE_UP_EXIT_CODE = 93
"""oomph gave up on a fault that another start would only repeat: do not requeue."""
MOST_PER_FAULT = 3
MOST_WITHOUT_CHECKPOINT = 20
MOST_NEVER_STARTED = 1

CRASH_SIGNALS = frozenset((signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
"""Deaths that come over a process. SIGINT, SIGTERM and the like are somebody's wish."""


@dataclass(frozen=True)
class Finish:
    """The script has ended in its own way; so does oomph."""

    exit_code: int


@dataclass(frozen=True)
class Restart:
    """Start the script again."""

    reason: str


@dataclass(frozen=True)
class GiveUp:
    """Another start would only repeat the fault."""

    exit_code: int
    reason: str


Action = Finish | Restart | GiveUp


@dataclass(frozen=True)
class Ending:
    """What is known about how an attempt ended."""

    returncode: int
    """As `subprocess` has it: −n for death by signal n."""
    fault: str
    """The name of what ended it: "host-oom", "device-oom", or "SIGKILL" when that is all that is known."""
    started: bool = True
    """False when no fit was reached and no step was committed."""
    steps: int = 0
    """Steps committed by the end, over all attempts."""
    saved: int = 0
    """Steps in the newest checkpoint."""
    stopped: bool = False
    """The user or the scheduler wanted it to end."""
    restart_requested: str = ""
    """Why the guard in the script asked for a new process; empty when it did not."""
    gave_up: str = ""
    """Why the guard gave up, when the script died of just that; empty otherwise."""


@dataclass(frozen=True)
class Ledger:
    """What the restarts so far have cost and brought."""

    restarts: Mapping[str, int] = field(default_factory=dict)
    """Restarts per fault since the last progress."""
    best_steps: int = 0
    """The most steps that were committed at any failure."""
    best_saved: int = 0
    """The most steps that were in a checkpoint at any failure."""
    without_checkpoint: int = 0
    """Restarts since a checkpoint got further."""
    never_started: int = 0
    """Attempts in a row that ended before their first fit."""
    total: int = 0
    """Restarts of the whole run."""

    def as_data(self) -> dict[str, Any]:
        """For the journal."""
        return {**vars(self), "restarts": dict(self.restarts)}


def decide(ending: Ending, ledger: Ledger) -> Action:
    """What to do now. `ledger` is the one from before this ending; see `record`."""
    if ending.stopped:
        return Finish(exit_code(ending.returncode))
    if ending.gave_up:
        return GiveUp(GAVE_UP_EXIT_CODE, ending.gave_up)
    if not ending.restart_requested and not is_crash(ending.returncode):
        return Finish(exit_code(ending.returncode))
    return _within_budget(ending, refill(ending, ledger))


def record(ending: Ending, action: Action, ledger: Ledger) -> Ledger:
    """The ledger after the action."""
    if not isinstance(action, Restart):
        return ledger
    ledger = refill(ending, ledger)
    return replace(
        ledger,
        restarts={**ledger.restarts, ending.fault: ledger.restarts.get(ending.fault, 0) + 1},
        without_checkpoint=ledger.without_checkpoint + 1,
        never_started=0 if ending.started else ledger.never_started + 1,
        total=ledger.total + 1,
    )


def refill(ending: Ending, ledger: Ledger) -> Ledger:
    """New progress gives the budgets back; standing still, or repeating steps, does not."""
    if ending.steps > ledger.best_steps:
        ledger = replace(ledger, restarts={}, best_steps=ending.steps)
    if ending.saved > ledger.best_saved:
        ledger = replace(ledger, without_checkpoint=0, best_saved=ending.saved)
    return ledger


def is_crash(returncode: int) -> bool:
    """Whether the process died by a signal that restarting may help against."""
    return -returncode in CRASH_SIGNALS


def exit_code(returncode: int) -> int:
    """The exit code that a shell shows: 128 + n for death by signal n."""
    return returncode if returncode >= 0 else 128 - returncode


def _within_budget(ending: Ending, ledger: Ledger) -> Action:
    if not ending.started and ledger.never_started >= MOST_NEVER_STARTED:
        return GiveUp(
            GAVE_UP_EXIT_CODE, f"{ending.fault} before any training began, {_times(ledger.never_started + 1)}"
        )
    spent = ledger.restarts.get(ending.fault, 0)
    if spent >= MOST_PER_FAULT:
        return GiveUp(GAVE_UP_EXIT_CODE, f"{ending.fault} {_times(spent + 1)} without any progress in between")
    if ledger.without_checkpoint >= MOST_WITHOUT_CHECKPOINT:
        return GiveUp(
            GAVE_UP_EXIT_CODE, f"{ledger.without_checkpoint} restarts, and no checkpoint got further in any of them"
        )
    return Restart(ending.restart_requested or ending.fault)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
