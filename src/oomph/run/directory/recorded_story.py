"""Reads from a run directory what `oomph explain` and `oomph report` both tell of it: its story, its own command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oomph.explain.matching.named_fault import OwnCommand
from oomph.files.oomph_folder import NOTEBOOKS
from oomph.journal.events import AttemptStarted, RunEnded
from oomph.journal.journal import Event, facts, read_journal
from oomph.run.directory.run_directory import read_record
from oomph.run.directory.search import is_own_place
from oomph.run.directory.workers import folders_of
from oomph.run.report.next_command import options_without_a_run
from oomph.run.report.story import Story, story_of
from oomph.run.report.summary import Summary, of_workers, summarise


def story_of_run(run: Path) -> Story | None:
    """Return a run's story, or None if no attempt is recorded in its journal."""
    events = read_journal(run)
    if not facts(events, AttemptStarted):
        return None
    return story_from(run, events, summary_of_run(run, events, exit_code_of(events)))


def summary_of_run(run: Path, events: Sequence[Event], exit_code: int | None) -> Summary:
    """Summarise the events of a run. If it has several workers, these are the first one's, and all are examined."""
    folders = folders_of(run)
    if len(folders) == 1:
        return summarise(events, exit_code)
    common = [event for event in events if event.role == "supervisor"]
    others = (sorted([*common, *read_journal(folder)], key=_moment) for folder in folders[1:])
    return of_workers([summarise(each, exit_code) for each in (events, *others)])


def _moment(event: Event) -> tuple[int, float]:
    return event.attempt, event.time


def story_from(run: Path, events: Sequence[Event], summary: Summary) -> Story:
    """Return the story that a run's events tell, with the run's own command in what it suggests."""
    record = read_record(run)
    typed, words = ((), ()) if record is None else (record.options, record.command)
    return story_of(events, summary, typed, words)


def exit_code_of(events: Sequence[Event]) -> int | None:
    """Return the latest oomph invocation's exit code, or None if it has not exited, even if earlier ones have."""
    newest = max((event.attempt for event in events), default=0)
    ended = [each.exit_code for each in facts((event for event in events if event.attempt == newest), RunEnded)]
    return ended[-1] if ended and isinstance(ended[-1], int) else None


def is_of_notebook(run: Path) -> bool:
    """True if the attempts of the run are kernels of a notebook, which no command starts."""
    return is_own_place(run) and run.absolute().parent.name == NOTEBOOKS


def command_of_run(run: Path) -> OwnCommand:
    """Return the command that started the run, or an empty one if there was none or the record cannot be read."""
    record = read_record(run)
    if record is None or is_of_notebook(run):
        return OwnCommand()
    return OwnCommand(tuple(options_without_a_run(record.options)), record.command)
