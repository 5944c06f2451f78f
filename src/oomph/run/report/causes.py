"""The causes of a label that has no reasons of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oomph.journal.journal import Event
from oomph.protocol.reason_table import SHUFFLE_OVER
from oomph.protocol.reasons import Reason, because, reason_from, reason_of
from oomph.run.report.labels import (
    FAILED,
    REPLAYED,
    STARTED_OVER,
    UNGUARDED,
    is_unguarded_loop,
    loop_reason,
)


def causes(label: str, events: Sequence[Event]) -> tuple[Reason, ...]:
    """The causes of a label, from the events of the run."""
    find = _CAUSES.get(label)
    return () if find is None else tuple(dict.fromkeys(find(events)))


def _of_loops(events: Iterable[Event]) -> Iterator[Reason]:
    for event in events:
        if event.name == "loop-seen":
            yield loop_reason(event)


def _of_unguarded(events: Sequence[Event]) -> Iterator[Reason]:
    yield from _of_loops(event for event in events if is_unguarded_loop(event))
    for event in events:
        if event.name == "guard-failed" and not any(each.name == "loop-seen" for each in events):
            yield because("guard-failed", error=_first_line(event))


def _of_started_over(events: Sequence[Event]) -> Iterator[Reason]:
    yield from _of_loops(events)
    for event in events:
        if event.name == "checkpoint-failed":
            yield because("not-written", error=_first_line(event))
        elif event.name == "checkpoint-skipped" or (event.name == "checkpoint-refused" and not event.data.get("name")):
            yield reason_of(event)
    if not any(event.name == "checkpoint" and event.attempt == 1 for event in events):
        yield because("no-checkpoint")


def _of_replayed(events: Sequence[Event]) -> Iterator[Reason]:
    for event in events:
        why = event.data.get("why") if event.name == "checkpoint" else None
        if why and reason_from(why).value("kind") != SHUFFLE_OVER:
            yield reason_from(why)


def _of_failed(events: Sequence[Event]) -> Iterator[Reason]:
    for event in events:
        if event.name == "gave-up" and event.data.get("fault") == "checkpoint-failure":
            yield reason_of(event)


def _first_line(event: Event) -> str:
    lines = str(event.data.get("reason") or "").splitlines()
    return lines[0].rstrip(" :.,") if lines else ""


_CAUSES = {
    UNGUARDED: _of_unguarded,
    STARTED_OVER: _of_started_over,
    REPLAYED: _of_replayed,
    FAILED: _of_failed,
}
