"""judge(fault, undisturbed, run) -> Verdict: whether a run survived its fault, and at what cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oomph.journal.events import (
    CheckpointFailed,
    CheckpointRefused,
    CheckpointSaved,
    CheckpointSkipped,
    FitFinished,
    RehearsalEnded,
    Resumed,
)
from oomph.journal.fact import Fact
from oomph.journal.journal import Event, events_of, facts, last
from oomph.protocol.not_restartable import NAME as NOT_RESTARTABLE
from oomph.protocol.reasons import Reason, reasons_from
from oomph.run.report.causes import causes

SURVIVED, LOST, NOT_TRIED = "yes", "no", "not tried"
_LIKE_A_KILL = ("kill", "abort", "hang", "corrupt-checkpoint", "lost-gpu")
"""Faults that end the process. Those that change nothing else come first."""


@dataclass(frozen=True)
class Rehearsable:
    """A fault, its effect on the script, and the sign that oomph noticed it."""

    name: str
    what: str
    """The effect on the script."""
    fault: str
    """The name under which the run's summary must count the fault; empty if the fault does not end an attempt."""
    event: type[Fact] | None = None
    """The event that the journal must contain, if any."""


FAULTS = (
    Rehearsable(
        "oom", "a step runs out of memory, and so does every micro-batch larger than half the batch", "device-oom"
    ),
    Rehearsable("kill", "kill -9", "killed", Resumed),
    Rehearsable("abort", "abort, as after a failed check in CUDA code", "abort", Resumed),
    Rehearsable("hang", "a step never ends", "hang", Resumed),
    Rehearsable("nan", "a weight turns NaN", "", CheckpointSkipped),
    Rehearsable(
        "corrupt-checkpoint", "a bit in the newest checkpoint flips, then kill -9", "killed", CheckpointRefused
    ),
    Rehearsable("disk-full", "no further checkpoint can be written", "", CheckpointFailed),
    Rehearsable("lost-gpu", "abort, with one GPU fewer afterwards", "abort", Resumed),
)
NAMES = tuple(fault.name for fault in FAULTS)


@dataclass(frozen=True)
class Rehearsed:
    """A finished run, undisturbed or not."""

    exit_code: int | None
    """The run's exit code, or None if it did not finish within its time limit."""
    seconds: float
    summary: dict[str, Any]
    events: Sequence[Event]
    fired: bool = False
    """True if the fault was injected."""

    @property
    def steps(self) -> int:
        """The number of distinct steps completed."""
        return int(self.summary.get("steps") or 0)

    @property
    def saved(self) -> int:
        """The number of steps in the last checkpoint taken within a fit."""
        saved = facts(self.events, CheckpointSaved)
        return max((each.steps for each in saved if each.name.startswith("step")), default=0)

    @property
    def refused(self) -> str:
        """The reason why the script could not be started a second time; empty if it could."""
        gave_up = str(self.summary.get("gave_up") or "")
        return gave_up if NOT_RESTARTABLE in (self.summary.get("faults") or ()) else ""

    @property
    def end(self) -> RehearsalEnded | FitFinished | None:
        """The final state and loss."""
        return last(self.events, RehearsalEnded) or last(self.events, FitFinished)


@dataclass(frozen=True)
class FaultVerdict:
    """The verdict on one fault."""

    fault: str
    survived: str
    """"yes", "no" or "not tried"."""
    reason: str
    """The reason why the run did not survive the fault; empty if it did."""
    named: tuple[str, ...] = ()
    """The faults that the run counted."""
    restarts: int = 0
    steps_repeated: int = 0
    seconds_lost: float = 0.0
    """The time lost, in seconds, compared with the undisturbed run."""
    result: str = ""
    """A description of how the final state compares with the undisturbed run's."""
    at_risk: int = 0
    """The steps that a kill at the end would have cost beyond those in the undisturbed run."""
    label: str = ""
    """The label of the result (`labels.py`); empty if unknown."""
    label_reasons: tuple[Reason, ...] = ()
    """The reasons why the label is not better."""


def judge(fault: Rehearsable, undisturbed: Rehearsed, run: Rehearsed) -> FaultVerdict:
    """Judge a run, which survives if it finishes in a useful state after the fault has occurred and been handled."""
    survived, reason = _survived(fault, undisturbed, run)
    label = "" if survived == NOT_TRIED or run.refused else str(run.summary.get("exactness") or "")
    known = (*reasons_from(run.summary.get("reasons")), *causes(label, run.events))
    reasons = tuple(dict.fromkeys(known))
    return FaultVerdict(
        fault=fault.name,
        survived=survived,
        reason=reason,
        named=tuple(run.summary.get("faults") or ()),
        restarts=int(run.summary.get("restarts") or 0),
        steps_repeated=int(run.summary.get("steps_repeated") or 0),
        seconds_lost=round(max(0.0, run.seconds - undisturbed.seconds), 1),
        result=_result(undisturbed, run, reasons) if survived != NOT_TRIED else "",
        at_risk=max(0, undisturbed.saved - run.saved) if fault.name in ("disk-full", "nan") else 0,
        label=label,
        label_reasons=reasons,
    )


def after_a_kill(verdicts: Sequence[FaultVerdict]) -> FaultVerdict | None:
    """Return the verdict whose label a killed run of the script would get, or None if no run was restarted."""
    labelled = [verdict for verdict in verdicts if verdict.fault in _LIKE_A_KILL and verdict.restarts and verdict.label]
    return min(labelled, key=lambda verdict: _LIKE_A_KILL.index(verdict.fault), default=None)


def _survived(fault: Rehearsable, undisturbed: Rehearsed, run: Rehearsed) -> tuple[str, str]:
    if run.refused:
        return LOST, run.refused
    if not run.fired:
        return NOT_TRIED, "the script never reached a point where it could be injected"
    if run.exit_code is None:
        return LOST, f"the run had not finished after {run.seconds:.0f} s: nothing stopped the {fault.name}"
    if run.exit_code != 0:
        gave_up = run.summary.get("gave_up")
        return LOST, f"exit code {run.exit_code}" + (f": {gave_up}" if gave_up else "")
    if run.steps < undisturbed.steps:
        return LOST, f"it stopped after {run.steps} of {undisturbed.steps} steps"
    loss = None if run.end is None else run.end.loss
    if (loss is not None and not math.isfinite(loss)) or _ended_not_finite(run):
        kept = f"the state of step {run.saved} is kept" if run.saved else "there was no earlier checkpoint"
        return LOST, f"training continued with NaN, as is usual in Keras (TerminateOnNaN stops it); {kept}"
    if fault.fault and fault.fault not in (run.summary.get("faults") or {}):
        return LOST, f"it finished, but did not count the fault {fault.fault}"
    if fault.event and not any(isinstance(event.fact, fault.event) for event in run.events):
        if fault.event is Resumed:
            return LOST, "it finished, but trained again from the beginning"
        return LOST, f"it finished, but the journal lacks the event {fault.event.event} that would show how"
    return SURVIVED, ""


def _ended_not_finite(run: Rehearsed) -> bool:
    """True if no finite state was saved after the last non-finite one; the loss may be finite nonetheless."""
    saves = events_of(run.events, CheckpointSaved, CheckpointSkipped)
    return bool(saves) and isinstance(saves[-1].fact, CheckpointSkipped)


def _result(undisturbed: Rehearsed, run: Rehearsed, reasons: Sequence[Reason]) -> str:
    ours, theirs = run.end, undisturbed.end
    if ours is None or run.exit_code != 0 or (ours.state is None and ours.loss is None):
        return ""
    if ours.state and theirs is not None and ours.state == theirs.state:
        is_raced = any(reason.code == "raced" for reason in reasons)
        return "the same bits, by chance" if is_raced else "the same bits"
    if theirs is not None and ours.loss is not None and theirs.loss is not None:
        return f"loss {ours.loss:.6g}, undisturbed {theirs.loss:.6g}"
    return "weights differ from the undisturbed run"
