"""Finds what caused a label, which changes to the script would improve it, and which training was unguarded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oomph.journal.events import (
    AttemptEnded,
    CheckpointFailed,
    CheckpointRefused,
    CheckpointSaved,
    CheckpointSkipped,
    GaveUp,
    GuardFailed,
    LoopSeen,
    ProcessStarted,
    Resumed,
    RunStarted,
    TrainedOutsideFit,
    UnguardedTraining,
)
from oomph.journal.journal import Event, facts, pairs
from oomph.protocol.reason_table import FITTING, GENERAL, RESUMABLE, SHUFFLE_OVER
from oomph.protocol.reasons import Reason, because, reason_from, reason_of
from oomph.protocol.replacements import SUPERVISED, unguarded_in_words
from oomph.run.report.labels import (
    APPROXIMATE,
    EXACT,
    FAILED,
    NOT_EQUAL,
    REPLAYED,
    STARTED_OVER,
    UNGUARDED,
    UNKNOWN,
    UNVERIFIED,
    VERIFIED,
    is_guarded,
    loop_reason,
    outside_reason,
    reasons_elsewhere,
    unguarded_loops,
)


def causes(label: str, events: Sequence[Event]) -> tuple[Reason, ...]:
    """Return the causes of a label, found in the run's events."""
    find = _CAUSES.get(label)
    return () if find is None else tuple(dict.fromkeys(find(events)))


def _of_unguarded(events: Sequence[Event]) -> Iterator[Reason]:
    for loop in unguarded_loops(events):
        yield loop_reason(loop.site)
    if not facts(events, LoopSeen):
        for failed in facts(events, GuardFailed):
            yield because("guard-failed", error=_first_line(failed.reason))


def _of_started_over(events: Sequence[Event]) -> Iterator[Reason]:
    for loop in facts(events, LoopSeen):
        yield loop_reason(loop.site)
    for event in events:
        match event.fact:
            case CheckpointFailed(reason=reason):
                yield because("not-written", error=_first_line(reason))
            case CheckpointSkipped() as skipped:
                yield reason_of(skipped)
            case CheckpointRefused(name="") as refused:
                yield reason_of(refused)
    yield from _of_start_over(events)
    if not facts(events, LoopSeen):
        yield from _of_no_checkpoint(events)


def _of_start_over(events: Sequence[Event]) -> Iterator[Reason]:
    """Yield a reason if an attempt with `--start-over` could have resumed from an earlier attempt's checkpoint."""
    saved = min((event.attempt for event, ended in pairs(events, AttemptEnded) if ended.saved), default=None)
    over = [event.attempt for event, run in pairs(events, RunStarted) if run.start_over]
    if saved is not None and any(attempt > saved for attempt in over):
        yield because("start-over")


def _of_no_checkpoint(events: Sequence[Event]) -> Iterator[Reason]:
    """Yield a reason to take the first checkpoint earlier, if the lost attempt committed more than one step."""
    newest = max((event.attempt for event in events), default=0)
    ended = [ended for event, ended in pairs(events, AttemptEnded) if event.attempt < newest and ended.steps]
    lost = [each.steps for each in ended if not each.saved]
    if lost and min(lost) > 1:
        yield because("no-checkpoint", steps=min(lost))
    elif not ended and not facts(events, CheckpointSaved):
        yield because("no-checkpoint")  # how far it got was not recorded


def _of_replayed(events: Sequence[Event]) -> Iterator[Reason]:
    used = {resumed.name for resumed in facts(events, Resumed) if resumed.kind == "replayed"}
    for saved in facts(events, CheckpointSaved):
        if saved.why and (saved.name in used or reason_from(saved.why).value("kind") != SHUFFLE_OVER):
            yield reason_from(saved.why)


def _of_failed(events: Sequence[Event]) -> Iterator[Reason]:
    for gave_up in facts(events, GaveUp):
        if gave_up.fault == "checkpoint-failure":
            yield reason_of(gave_up)


def _first_line(reason: str) -> str:
    lines = reason.splitlines()
    return lines[0].rstrip(" :.,") if lines else ""


_CAUSES = {
    UNGUARDED: _of_unguarded,
    STARTED_OVER: _of_started_over,
    REPLAYED: _of_replayed,
    FAILED: _of_failed,
}


BEST = (EXACT, VERIFIED)
"""The labels that don't need a remedy."""
_OF_LABELS = {
    UNVERIFIED: "nothing to change in the script: too few comparable steps lay between the checkpoint and the fault",
    REPLAYED: "draw the data pipeline's random numbers with tf.random.stateless_uniform and the like; if its "
    "buffers were too large to save, use smaller ones in shuffle() and prefetch()",
    APPROXIMATE: FITTING,
    NOT_EQUAL: GENERAL,
    STARTED_OVER: "nothing to change in the script: there was nothing to resume from",
    UNGUARDED: RESUMABLE,
    FAILED: "fix what ended the script: oomph explain names it",
    UNKNOWN: "keep the run directory intact: journal/ records what each attempt did",
}


class ReasonRemedy(NamedTuple):
    """A reason as text, with its remedy."""

    reason: str
    text: str


def remedies(label: str, reasons: Iterable[Reason]) -> list[ReasonRemedy]:
    """Return the remedies for a label: one for each reason, or a single one for reasons that share a remedy.

    Args:
        label: the label of a run.
        reasons: the reasons why it is not better. If there are none, the label's own remedy applies.
    """
    if label in BEST:
        return []
    found: dict[str, ReasonRemedy] = {}
    for reason in reasons:
        found.setdefault(reason.remedy, ReasonRemedy(str(reason), reason.remedy))
    return list(found.values()) or [ReasonRemedy("", _OF_LABELS[label])]


NOT_LOADED = (
    "the script ran unguarded: its Python did not load oomph (is it older than 3.10, or started with -I, -E or -S?)"
)
NO_PYTHON = "the command ran unguarded: no Python in it loaded oomph (is there one? -I, -E and -S keep oomph out)"
NO_RECORD = "without a run directory, there is no record of whether training was guarded"
NONE_SEEN = "no training was seen, so nothing was guarded"
RECOVERED = "batches that do not fit are split where possible; nothing is saved, so that a restart starts it over"
NOT_ASKED = f"unguarded, as --no-guard requests: {SUPERVISED}"


def unguarded(events: Sequence[Event], guard: bool, loaded: bool, python: bool = True, recorded: bool = True) -> str:
    """Describe unguarded training, what that means and what to do, or return an empty string if there was none.

    Args:
        events: the events of all attempts.
        guard: whether the run has a guard.
        loaded: whether the script's Python is known to have loaded oomph.
        python: whether a Python interpreter is known to have started.
        recorded: whether there is a run directory that records the script's events.
    """
    if not loaded:
        return NOT_LOADED if python else NO_PYTHON
    if not guard:
        return NOT_ASKED
    if not recorded:
        return NO_RECORD
    seen = facts(events, UnguardedTraining)
    if seen:
        return unguarded_in_words(seen[0].site, seen[0].kind)
    guarded = is_guarded(events)
    elsewhere = [] if guarded else reasons_elsewhere(events)
    if elsewhere:
        return f"unguarded: {elsewhere[0]}: {RECOVERED}. To have it resumed, {elsewhere[0].remedy}"
    cause = remedies(UNGUARDED, causes(UNGUARDED, events))[0]
    if cause.reason and (not guarded or unguarded_loops(events)):
        return f"unguarded: {cause.reason}, {SUPERVISED}. To have it guarded, {cause.text}"
    outside = next((outside_reason(each) for each in facts(events, TrainedOutsideFit)), None)
    if outside is not None:
        return f"{outside}: {RECOVERED}. To have it resumed, {outside.remedy}"
    nothing = not guarded and facts(events, ProcessStarted)  # otherwise it is unknown
    return NONE_SEEN if nothing else ""
