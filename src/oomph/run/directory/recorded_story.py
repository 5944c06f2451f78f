"""Reads from a run directory what every verb tells alike: how a run ended, its story, its command, what was lost of it.

The journal has all of it. If a part of the journal was lost, run.json and summary.json still tell the end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from oomph.explain.matching.named_fault import OwnCommand
from oomph.explain.reading.run import why_nothing_is_known
from oomph.files.conforming import conforms
from oomph.files.oomph_folder import NOTEBOOKS
from oomph.journal.events import RunEnded, WorkersPlaced
from oomph.journal.gaps import JournalGap, gap_in
from oomph.journal.journal import Event, last, pairs, read_journal
from oomph.protocol.reasons import reasons_from
from oomph.run.directory.run_directory import (
    FINISHED,
    KEPT,
    RUNNING,
    STATUSES,
    RunRecord,
    read_record,
    read_summary,
    why_no_record,
)
from oomph.run.directory.search import is_own_place
from oomph.run.directory.store_state import store_state
from oomph.run.directory.workers import folders_of
from oomph.run.report.labels import ORDER, UNKNOWN
from oomph.run.report.next_command import options_without_a_run
from oomph.run.report.story import Story, story_of
from oomph.run.report.summary import Summary, of_workers, summarise

_SUCCEEDED = (FINISHED, KEPT)
_OVER = tuple(status for status in STATUSES if status != RUNNING)


@dataclass(frozen=True)
class RecordedRun:
    """The knowledge about a run."""

    record: RunRecord | None
    events: Sequence[Event]
    summary: Summary
    story: Story
    missing: tuple[str, ...] = ()
    """The parts of the run that cannot be read, or are not in its store, as sentences."""


def recorded_run(path: Path) -> RecordedRun:
    """Read a run. Never raises: what cannot be read is left out, and told."""
    record, events = read_record(path), read_journal(path)
    gap = _gap_in(path, record)
    attempts, status = (0, "") if record is None else (record.attempts, record.status)
    if gap is None or not gap.hides_events:
        summary = summary_of_run(path, events, _exit_code(events, attempts))
    else:
        summary = _summary_of_a_part(path, events, attempts, status)
    typed, words = ((), ()) if record is None else (record.options, record.command)
    story = story_of(events, summary, typed, words, status, gap)
    return RecordedRun(record, events, summary, story, _in_words(path, record, gap))


def summary_of_run(run: Path, events: Sequence[Event], exit_code: int | None) -> Summary:
    """Summarise the events of a run. If it has several workers, these are the first one's, and all are examined.

    Workers that had no place in the last attempt are left out: the others have gone on from what they had in common.
    """
    placed = last(events, WorkersPlaced)
    folders = folders_of(run)[: None if placed is None else len(placed.hosts)]
    if len(folders) == 1:
        return summarise(events, exit_code)
    common = [event for event in events if event.role == "supervisor"]
    others = (_with_supervisor(read_journal(folder), common) for folder in folders[1:])
    return of_workers([summarise(each, exit_code) for each in (events, *others)])


def _with_supervisor(events: Sequence[Event], common: Sequence[Event]) -> Sequence[Event]:
    """Return a worker's events and those of its supervisor, which may be one that all workers have in common."""
    has_own = any(event.role == "supervisor" for event in events)
    return events if has_own else sorted([*common, *events], key=_moment)


def _moment(event: Event) -> tuple[int, float]:
    return event.attempt, event.time


def what_was_lost(path: Path) -> tuple[str, ...]:
    """Return what of a run cannot be read, as sentences."""
    record = read_record(path)
    return _in_words(path, record, _gap_in(path, record))


def why_nothing_is_told(path: Path) -> str:
    """Explain in one sentence why a run has no story, and say what is known of its end."""
    record = read_record(path)
    return why_nothing_is_known(path) + ("" if record is None else f"; its run.json says: {record.status}")


def _gap_in(path: Path, record: RunRecord | None) -> JournalGap | None:
    if record is None:
        return gap_in(path) if os.path.lexists(path / "journal") else None  # the samples of an `oomph.Monitor`
    return gap_in(path, record.attempts, record.status in _OVER)


def _in_words(path: Path, record: RunRecord | None, gap: JournalGap | None) -> tuple[str, ...]:
    told = [] if gap is None else [gap.text]
    if record is None and os.path.lexists(path / "journal"):
        why = why_no_record(path)
        told.insert(0, f"run.json in {path} {why}; the command of the run is unknown, and whether it can go on")
    store = store_state(path)
    if store is not None and store.in_words() and (record is None or record.status in _OVER):
        told.append(store.in_words())
    return tuple(told)


def _exit_code(events: Sequence[Event], attempts: int) -> int | None:
    """Return the latest oomph invocation's exit code, or None if it has not exited, even if earlier ones have."""
    newest = max([attempts, *(event.attempt for event in events)])
    ended = [each.exit_code for event, each in pairs(events, RunEnded) if event.attempt == newest]
    return ended[-1] if ended and isinstance(ended[-1], int) else None


def _summary_of_a_part(path: Path, events: Sequence[Event], attempts: int, status: str) -> Summary:
    """Summarise a run that has lost events, without which it may look better than it was.

    Args:
        path: the run directory.
        events: the events that are left.
        attempts: the number of attempts according to run.json.
        status: the status according to run.json.
    """
    exit_code, is_over = _exit_code(events, attempts), status in _OVER
    stored = _summed_up(path, status) if is_over else {}
    is_end_known = exit_code is not None or bool(stored) or not is_over
    if exit_code is None and is_over:
        exit_code = 0 if status in _SUCCEEDED else stored.get("exit_code")
    found = summarise(events, exit_code)
    if not is_end_known:
        found = replace(found, steps=0, steps_repeated=0, seconds=0.0)  # those until then are not those of the run
    return replace(found, **{"attempts": max(attempts, found.attempts), "exactness": UNKNOWN, "reasons": (), **stored})


def _summed_up(path: Path, status: str) -> dict[str, Any]:
    """Return the fields that the supervisor itself summed up at the end of the run, when the journal was whole.

    Nothing if that was an earlier end, or the file is damaged or planted.
    """
    document = read_summary(path)
    if not conforms(document.get("exit_code"), int) or (document["exit_code"] == 0) != (status in _SUCCEEDED):
        return {}
    found = {name: value for name, value in document.items() if name in _KINDS and _is_plausible(value, _KINDS[name])}
    if found.get("exactness") not in ORDER:
        return {name: value for name, value in found.items() if name != "exactness"}
    return {**found, "reasons": reasons_from(document.get("reasons"))}


_KINDS = {
    name: kind
    for name, kind in get_type_hints(Summary).items()
    if kind in (int, float, str, int | None, float | None, Mapping[str, int])
}
"""The fields of a summary that are stored as they are."""


def _is_plausible(value: object, kind: Any) -> bool:
    if kind in (str, Mapping[str, int]):
        return conforms(value, kind)
    is_amount = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return (value is None or is_amount) and conforms(value, kind)


def is_of_notebook(run: Path) -> bool:
    """True if the attempts of the run are kernels of a notebook, which no command starts."""
    return is_own_place(run) and run.absolute().parent.name == NOTEBOOKS


def command_of_run(run: Path) -> OwnCommand:
    """Return the command that started the run, or an empty one if there was none or the record cannot be read."""
    record = read_record(run)
    if record is None or is_of_notebook(run):
        return OwnCommand()
    return OwnCommand(tuple(options_without_a_run(record.options)), record.command)
