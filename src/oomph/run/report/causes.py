"""The causes of a label that has no reasons of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oomph.journal.journal import Event
from oomph.run.report.labels import (
    FAILED,
    REPLAYED,
    STARTED_OVER,
    UNGUARDED,
    is_unguarded_loop,
    loop_in_words,
)

NOT_SAVED = "the position in the data cannot be saved"


def causes(label: str, events: Sequence[Event]) -> tuple[str, ...]:
    """The causes of a label, in words, from the events of the run."""
    find = _CAUSES.get(label)
    return () if find is None else tuple(dict.fromkeys(find(events)))


def _of_loops(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        if event.name == "loop-seen":
            yield loop_in_words(event)


def _of_unguarded(events: Sequence[Event]) -> Iterator[str]:
    yield from _of_loops(event for event in events if is_unguarded_loop(event))
    for event in events:
        if event.name == "guard-failed" and not any(each.name == "loop-seen" for each in events):
            yield f"the guard failed: {event.data.get('reason')}"


def _of_started_over(events: Sequence[Event]) -> Iterator[str]:
    yield from _of_loops(events)
    for event in events:
        reason = str(event.data.get("reason", ""))
        if event.name == "checkpoint-failed":
            yield f"no checkpoint could be written: {reason}"
        elif event.name == "checkpoint-skipped" or (event.name == "checkpoint-refused" and not event.data.get("name")):
            yield reason
    if not any(event.name == "checkpoint" and event.attempt == 1 for event in events):
        yield "no checkpoint had been taken"


def _of_replayed(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        why = event.data.get("iterator", "saved") if event.name == "checkpoint" else "saved"
        if why not in ("saved", "the shuffle of this epoch is over"):
            yield f"{NOT_SAVED}: {why}"


def _of_failed(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if event.name == "gave-up" and event.data.get("fault") == "checkpoint-failure":
            yield str(event.data.get("reason"))


_CAUSES = {
    UNGUARDED: _of_unguarded,
    STARTED_OVER: _of_started_over,
    REPLAYED: _of_replayed,
    FAILED: _of_failed,
}
