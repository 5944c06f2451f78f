"""The causes of a label that has no reasons of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.journal.events import (
    AttemptEnded,
    CheckpointFailed,
    CheckpointRefused,
    CheckpointSaved,
    CheckpointSkipped,
    GaveUp,
    GuardFailed,
    LoopSeen,
    Resumed,
    RunStarted,
)
from oomph.journal.journal import Event, facts, pairs
from oomph.protocol.reason_table import SHUFFLE_OVER
from oomph.protocol.reasons import Reason, because, reason_from, reason_of
from oomph.run.report.labels import (
    FAILED,
    REPLAYED,
    STARTED_OVER,
    UNGUARDED,
    loop_reason,
    unguarded_loops,
)


def causes(label: str, events: Sequence[Event]) -> tuple[Reason, ...]:
    """The causes of a label, from the events of the run."""
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
    """An attempt with `--start-over` could have resumed if an earlier one had left a checkpoint."""
    saved = min((event.attempt for event, ended in pairs(events, AttemptEnded) if ended.saved), default=None)
    over = [event.attempt for event, run in pairs(events, RunStarted) if run.start_over]
    if saved is not None and any(attempt > saved for attempt in over):
        yield because("start-over")


def _of_no_checkpoint(events: Sequence[Event]) -> Iterator[Reason]:
    """An earlier first checkpoint helps if the lost attempt had made more than one step."""
    newest = max((event.attempt for event in events), default=0)
    ended = [ended for event, ended in pairs(events, AttemptEnded) if event.attempt < newest and ended.steps]
    lost = [each.steps for each in ended if not each.saved]
    if lost and min(lost) > 1:
        yield because("no-checkpoint", steps=min(lost))
    elif not ended and not facts(events, CheckpointSaved):
        yield because("no-checkpoint")  # how far it had come is not recorded


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
