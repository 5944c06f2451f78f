"""What a run went through, in order: each fault, where it struck, what oomph did about it and what that cost. Pure.

`oomph explain RUN` prints it. The supervisor's closing lines add up the same events (`account.py`).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oomph.journal.journal import Event, by_attempt
from oomph.protocol.progress import place_in_words
from oomph.run.policy.ladder import change_in
from oomph.run.report.found import Found, each_once, findings_of
from oomph.run.report.labels import SMALLER
from oomph.run.report.next_command import options_without_a_run
from oomph.run.report.result import improvement, result_in_words
from oomph.run.report.stopped import stopped
from oomph.run.report.summary import ALL_ENDED, CUT_OFF, Summary, recovered_training, was_cut_off
from oomph.terminal.amounts import counted

OUT_OF_MEMORY, NOT_FINITE, HANG, UNRELATED = "device-oom", "nan-loss", "hang", "unrelated"
_GOES_ON = frozenset(("fit-started", "fit-finished", "checkpoint", "loop-seen", "trained-outside-fit"))
"""Events of a script that trains."""
_WORTH_A_FLAG = 1.0
"""Seconds that a run has to have lost before a flag is worth typing."""
_FEWER = 4
"""Checkpoints come this many times as often when repeated steps cost more than they may."""
_SHORTEST_CHECKPOINT_SECONDS = 5


@dataclass(frozen=True)
class Incident:
    """One fault of a run."""

    fault: str
    attempt: int
    place: str
    """Where training was, counted from 1; empty when no training had begun."""
    shown_by: str
    """What showed the fault, as it was printed or measured."""
    done: str
    """What oomph did about it."""
    cost: str
    """What that cost; empty when it cost nothing, or when that is not known."""


@dataclass(frozen=True)
class Saving:
    """A change to the command line that would have saved some of the cost."""

    text: str
    command: str


@dataclass(frozen=True)
class Story:
    """A run, told from its journal."""

    outcome: str
    failed: bool
    """True if it ended with another exit code than 0."""
    result: str
    """The label and its reasons in words; empty unless the script trained and finished."""
    incidents: tuple[Incident, ...]
    savings: tuple[Saving, ...]
    findings: tuple[Found, ...] = ()
    stopped: str = ""
    """Who stopped it, in words; empty when it ended otherwise."""
    improvement: str = ""
    """The one change to the script that gives a better result."""

    def as_document(self) -> dict[str, Any]:
        """For `oomph explain RUN --json`."""
        return asdict(self)


def story_of(events: Sequence[Event], summary: Summary, typed: Sequence[str], words: Sequence[str]) -> Story:
    """The story of a run.

    Args:
        events: of all its attempts, in order.
        summary: what they add up to.
        typed: the options of `oomph run` as the user gave them.
        words: the script and its arguments.
    """
    by_whom = stopped(events)
    incidents = tuple(incident for attempt in by_attempt(events) for incident in _incidents(attempt))
    return Story(
        outcome=_outcome(summary, len(incidents), by_whom),
        failed=summary.exit_code not in (None, 0),
        result=result_in_words(summary),
        incidents=incidents,
        savings=tuple(_savings(summary, events, [*options_without_a_run(typed)], words)),
        findings=each_once(findings_of(events)),
        stopped=by_whom,
        improvement=improvement(summary),
    )


def _outcome(summary: Summary, faults: int, by_whom: str) -> str:
    steps = f" after {counted(summary.steps, 'step')}" if summary.steps else ""
    attempts = f" in {counted(summary.attempts, 'attempt')}" if summary.attempts > 1 else ""
    if summary.exit_code is None:
        return f"{counted(faults, 'fault') if faults else 'no fault'} found{steps}{attempts}"
    if summary.exit_code == 0:
        return f"finished{steps}{attempts}, {summary.seconds:.0f} s"
    why = f": {summary.gave_up}" if summary.gave_up else ""
    ended = by_whom or f"ended with exit code {summary.exit_code}"
    return f"{ended}{steps}{attempts}, {summary.seconds:.0f} s{why}"


# -- what happened ----------------------------------------------------------------------------------------------------


def _incidents(attempt: Sequence[Event]) -> Iterator[Incident]:
    """The faults of one attempt: those within the process, and the one that ended it."""
    failed: list[Event] = []
    probed = {
        event.data["during"]: event.data.get("kind")
        for event in attempt
        if event.name == "probed" and "during" in event.data
    }
    skipped = [event for event in attempt if event.name == "checkpoint-skipped"]
    for event in attempt:
        if event.name == "checkpoint-skipped" and skipped:
            yield _not_finite(skipped)
            skipped = []
        elif event.name == "oom":
            failed.append(event)
        elif event.name in _GOES_ON:
            failed = _guarded(failed)  # the script has survived what it caught itself
        elif event.name == "recovered":
            if _guarded(failed):
                yield _recovered(_guarded(failed), event, probed.get(event.data.get("during")))
            failed = []
    ended = _that_ended(attempt, failed)
    if ended is not None:
        yield ended


def _guarded(failed: Sequence[Event]) -> list[Event]:
    """The errors within guarded steps. Errors elsewhere are left to the script."""
    return [event for event in failed if event.data.get("phase") != "elsewhere"]


def _not_finite(skipped: Sequence[Event]) -> Incident:
    """One fault for all checkpoints that were due while the state was not finite: training continues with it."""
    first = skipped[0]
    kept = dict.fromkeys(str(event.data["kept"]) for event in skipped if "kept" in event.data)
    done = f"kept {', then '.join(kept)}" if kept else "took no checkpoint of it"
    return Incident(NOT_FINITE, first.attempt, _place(first.data), str(first.data.get("reason", "")), done, "")


def _recovered(failed: Sequence[Event], recovered: Event, kind: str | None) -> Incident:
    data = recovered.data
    return Incident(
        OUT_OF_MEMORY,
        recovered.attempt,
        _place(data) or str(data.get("during", "map_batches" if "piece" in data else "")),
        _shown(failed[0]),
        _divided(data, data.get("guard", kind)),
        f"{_seconds(data):.0f} s, {counted(len(failed), 'out-of-memory error')}",
    )


def _divided(recovered: Mapping[str, Any], kind: str | None) -> str:
    """What was done with a batch that did not fit. The words depend on what the script called and on the promise."""
    during, batch = recovered.get("during"), recovered.get("batch")
    if "piece" in recovered:
        return f"applied the function to the batch of {batch} in calls of at most {recovered['piece']} elements"
    verb = "trained" if during is None else f"ran {during} on"
    whole, size = f"{verb} the batch of {batch}", recovered.get("micro_batch")
    if kind == SMALLER:
        return f"{whole} as smaller batches of {size}, each with its own update"
    return f"{whole} as micro-batches of {size}"


def _that_ended(attempt: Sequence[Event], failed: Sequence[Event]) -> Incident | None:
    """The fault that ended the attempt; None when it ended well, or was asked to end."""
    by = {event.name: event for event in attempt}
    hang, diagnosed, decided, ended = (by.get(n) for n in ("hang", "diagnosed", "decided", "attempt-ended"))
    error = by.get("uncaught-exception")
    if ended is not None and was_cut_off(ended):
        return _cut_off(ended, hang)
    fault = _fault(by, failed)
    if not fault:
        return None
    place = "" if decided is None else _place_of_ending(decided.data.get("ending"))
    shown_by = failed if fault == OUT_OF_MEMORY else []  # an error that was caught does not explain a later kill
    place = place or (_place(shown_by[-1].data) if shown_by else "")
    if hang is not None:
        shown = f"no progress for {hang.data.get('seconds')} s, at {hang.data.get('line') or 'an unknown line'}"
    elif shown_by:
        shown = _shown(shown_by[-1])
    elif error is not None:
        shown = f"{error.data.get('type')}: {error.data.get('message')}"
    else:
        shown = "" if ended is None else _exit(ended.data.get("returncode"))
    some = next((event for event in (decided, diagnosed, ended, *attempt) if event is not None), attempt[0])
    return Incident(fault, some.attempt, place, shown, _done(decided), _repeated(ended))


def _cut_off(ended: Event, hang: Event | None) -> Incident:
    """The end of an attempt whose supervisor was ended with it: the next `--resume` has recorded it."""
    place = "" if hang is None else _place(hang.data)
    shown = f"{ALL_ENDED}, as by kill -9 of both or a power failure: nothing recorded how"
    return Incident(CUT_OFF, ended.attempt, place, shown, f"nothing: {ALL_ENDED}", _repeated(ended))


def _fault(by: Mapping[str, Event], failed: Sequence[Event]) -> str:
    decided = by.get("decided")
    ending = {} if decided is None else decided.data.get("ending") or {}
    if ending.get("stopped") or ending.get("preempted"):
        return ""
    if "hang" in by:
        return HANG
    named = by["diagnosed"].data.get("fault") if "diagnosed" in by else None
    if isinstance(named, str):
        return named
    if _guarded(failed) and "attempt-ended" in by and by["attempt-ended"].data.get("returncode") != 0:
        return OUT_OF_MEMORY
    return ""


def _done(decided: Event | None) -> str:
    if decided is None:
        return "nothing: oomph itself was ended"
    change = change_in(decided.data)
    changed = "" if change is None else f", with {change}"
    reason = decided.data.get("reason")
    match decided.data.get("action"):
        case "restart":
            return f"started attempt {decided.attempt + 1}{changed}"
        case "give-up":
            return f"gave up: {reason}"
        case "requeue":
            return f"stopped, to be started again elsewhere or later: {reason}"
    return "left the end to the script"


def _repeated(ended: Event | None) -> str:
    steps, saved = (0 if ended is None else ended.data.get(key) or 0 for key in ("steps", "saved"))
    lost = int(steps) - int(saved)
    return f"{counted(lost, 'step')} since the last checkpoint" if lost > 0 else ""


# -- what would save it -----------------------------------------------------------------------------------------------


def _savings(summary: Summary, events: Sequence[Event], typed: list[str], words: Sequence[str]) -> Iterator[Saving]:
    if not words:
        return
    seconds = sum(_seconds(event.data) for event in events if recovered_training(event))
    if summary.micro_batch and seconds >= _WORTH_A_FLAG and not _given(typed, "--micro-batch"):
        command = ["oomph", "run", f"--micro-batch={summary.micro_batch}", *typed, *words]
        yield Saving(f"The {seconds:.0f} s of finding a micro-batch: start with its size", shlex.join(command))
    seconds = _seconds_repeated(summary, events)
    if seconds >= _WORTH_A_FLAG and not _given(typed, "--checkpoint-every"):
        every = max(_SHORTEST_CHECKPOINT_SECONDS, round(seconds / max(1, summary.restarts) / _FEWER))
        command = ["oomph", "run", f"--checkpoint-every={every}s", *typed, *words]
        yield Saving(
            f"Part of the {seconds:.0f} s that {counted(summary.steps_repeated, 'repeated step')} took: checkpoints in"
            " shorter intervals, which cost time too",
            shlex.join(command),
        )


def _seconds_repeated(summary: Summary, events: Sequence[Event]) -> float:
    """About how long the repeated steps took, by the mean of the fits that finished."""
    finished = [event.data for event in events if event.name == "fit-finished" and event.data.get("steps")]
    steps = sum(int(data["steps"]) for data in finished)
    seconds = summary.steps_repeated * sum(_seconds(data) for data in finished) / steps if steps else 0.0
    return seconds if math.isfinite(seconds) else 0.0  # the times in a journal may be forged


def _given(typed: Sequence[str], option: str) -> bool:
    return any(word.partition("=")[0] == option for word in typed)


# -- words ------------------------------------------------------------------------------------------------------------


def _place(data: Mapping[str, Any]) -> str:
    numbers = (data.get(key) for key in ("fit", "epoch", "step"))
    fit, epoch, step = numbers
    if not (isinstance(fit, int) and isinstance(epoch, int) and isinstance(step, int)):
        return ""
    return place_in_words(fit, epoch, step)


def _place_of_ending(ending: Any) -> str:
    if not isinstance(ending, Mapping):
        return ""
    place = ending.get("place")
    if not isinstance(place, Sequence) or len(place) != 3 or not all(isinstance(number, int) for number in place):
        return ""
    return place_in_words(place[0], place[1], place[2], ending.get("epoch_over") is True) if place[0] >= 0 else ""


def _shown(event: Event) -> str:
    return str(event.data.get("message", ""))


def _exit(returncode: object) -> str:
    if not isinstance(returncode, int):
        return ""
    return f"exit code {returncode}" if returncode >= 0 else f"death by signal {-returncode}"


def _seconds(data: Mapping[str, Any]) -> float:
    value = data.get("seconds")
    return float(value) if isinstance(value, int | float) else 0.0
