"""Finds what has been lost from a run's journal: files that are missing, empty or cut, and lines that are no events."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from oomph.files.oomph_folder import run_of
from oomph.files.opening import open_regular
from oomph.journal.events import AttemptEnded, RunEnded, UnknownEvent
from oomph.journal.journal import (
    Event,
    events_of,
    foreign_format,
    lines_left_out,
    pairs,
    read_journal,
    unreadable_lines,
)
from oomph.terminal.amounts import listed

_ATTEMPT = re.compile(r"[0-9]{1,9}")
_OWNER = re.compile(r"owner-([0-9]{1,9})")
_SUFFIX = ".jsonl"
_FILE = re.compile(r"([0-9]{1,9})-[0-9]{1,9}-(supervisor|script)\.jsonl")


class JournalGap(NamedTuple):
    """A part of a run's journal that cannot be read."""

    text: str
    """A sentence that says what is missing."""
    hides_events: bool = True
    """True if events were lost, so that nobody knows all that happened."""


def gap_in(directory: Path, attempts: int = 0, is_over: bool = False) -> JournalGap | None:
    """Return the largest gap in a run's journal, or None if the journal is whole.

    Args:
        attempts: the number of attempts that the run has had, according to its run.json.
        is_over: True if run.json says that the run has ended, which the journal must then say, too.
    """
    if foreign := foreign_format(directory):
        return JournalGap(f"only the output of the run in {directory} can be explained: {foreign}")
    if unreadable := _why_no_files(directory / "journal"):
        return JournalGap(f"the journal in {directory} {unreadable}")
    if files := [*_lost_files(directory, attempts), *_locked_files(directory)]:
        return JournalGap(f"the journal in {directory} is incomplete: {listed(files)}")
    if beyond := lines_left_out(directory):
        return JournalGap(f"{beyond} lines of the journal in {directory} are skipped: they do not fit in memory")
    if missing := unreadable_lines(directory):
        lines, they = ("line", "it") if missing == 1 else ("lines", "they")
        return JournalGap(
            f"{missing} {lines} of the journal in {directory} cannot be read; whatever {they} recorded is missing"
        )
    events = read_journal(directory)
    if not events:
        return JournalGap(f"the journal in {directory} is empty")
    if files := [f"the end of {name} is missing" for name in _cut_files(directory, events, attempts, is_over)]:
        return JournalGap(f"the journal in {directory} is incomplete: {listed(files)}")
    names = sorted({event.name for event in events if isinstance(event.fact, UnknownEvent)})
    start = f"the journal in {directory} has events that this version of oomph does not know: "
    return JournalGap(start + listed(names), hides_events=False) if names else None


def _why_no_files(folder: Path) -> str:
    """Say why a journal has no files, or return an empty string if it has some."""
    try:
        return "" if any(name.endswith(_SUFFIX) for name in os.listdir(folder)) else "is missing"
    except OSError as error:
        return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def _lost_files(directory: Path, attempts: int) -> list[str]:
    """List the journal files that should exist, but are missing or empty.

    Each attempt of a run has one file from the supervisor, and one from the script if its Python claimed the attempt.
    """
    claimed = {int(name[1]) for path in directory.glob("owner-*") if (name := _OWNER.fullmatch(path.name))}
    printed = {int(path.stem) for path in (directory / "stderr").glob("*.log") if _ATTEMPT.fullmatch(path.stem)}
    begun = claimed | printed | set(range(1, attempts + 1))
    written = [(attempt, "supervisor") for attempt in begun] + [(attempt, "script") for attempt in claimed]
    sizes = {path.name: _size(path) for path in (directory / "journal").glob("*.jsonl")}
    rank = directory.name if run_of(directory) != directory else "0"  # the supervisor of a worker writes as rank 0
    names = [f"{attempt}-{rank if role == 'script' else 0}-{role}.jsonl" for attempt, role in sorted(written)]
    return [f"{each} is {'empty' if each in sizes else 'missing'}" for each in names if not sizes.get(each)]


def _locked_files(directory: Path) -> Iterator[str]:
    for path in sorted((directory / "journal").glob("*.jsonl")):
        try:
            open_regular(path).close()
        except OSError as error:
            yield f"{path.name} cannot be read: {error.strerror}"


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _cut_files(directory: Path, events: Sequence[Event], attempts: int, is_over: bool) -> Iterator[str]:
    """Name the journal files whose end was lost, which a killed writer alone does not explain.

    A supervisor that goes on to the next attempt, or ends the run, has recorded it; a script that exits with code 0 has
    written its last line.
    """
    ended = {event.attempt for event in events_of(events, AttemptEnded)}
    finished = {event.attempt for event, each in pairs(events, AttemptEnded) if each.returncode == 0}
    closed = {event.attempt for event in events_of(events, RunEnded)}
    newest = max([attempts, *(event.attempt for event in events)])
    for path in sorted((directory / "journal").glob("*.jsonl")):
        found = _FILE.fullmatch(path.name)
        if found is None or not _size(path):
            continue
        attempt, role = int(found[1]), found[2]
        if role == "supervisor" and (attempt not in ended if attempt < newest else is_over and attempt not in closed):
            yield path.name
        if role == "script" and attempt in finished and _ends_in_half_a_line(path):
            yield path.name


def _ends_in_half_a_line(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False  # which counts as an unreadable line
