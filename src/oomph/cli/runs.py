"""Formats a run, or the runs in a folder, for `oomph explain`."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomph.explain import render
from oomph.explain.catalogue.catalogue import find
from oomph.explain.matching.named_fault import Diagnosis, OwnCommand
from oomph.journal.events import AttemptStarted, Decided, RunEnded
from oomph.journal.journal import Event, facts, last, read_journal
from oomph.run.directory.run_directory import RUNNING, RunRecord, read_record, written_by_another
from oomph.run.directory.unfinished import unfinished
from oomph.run.report.next_command import options_without_a_run
from oomph.run.report.story import Story, as_text, story_of
from oomph.run.report.summary import summarise
from oomph.terminal.message import shown_line

_MORE = "the evidence of every fault, and what to do about it"


def story_of_run(run: Path) -> Story | None:
    """Return a run's story, or None if no attempt is recorded in its journal."""
    events = read_journal(run)
    if not facts(events, AttemptStarted):
        return None
    record = read_record(run)
    typed, words = ((), ()) if record is None else (record.options, record.command)
    return story_of(events, summarise(events, _exit_code(events)), typed, words)


def command_of_run(run: Path) -> OwnCommand:
    """Return the command that started the run, or an empty one if the run's record cannot be read."""
    record = read_record(run)
    return OwnCommand() if record is None else OwnCommand(tuple(options_without_a_run(record.options)), record.command)


def given_up_on(run: Path) -> str:
    """Return the name of the fault that made oomph give up at the end of the run, or "" if it didn't."""
    decided = last(read_journal(run), Decided)
    if decided is None or decided.action != "give-up":
        return ""
    fault = (decided.ending or {}).get("fault")
    return fault if isinstance(fault, str) else ""


def run_as_text(
    story: Story,
    run: str,
    diagnoses: Sequence[Diagnosis],
    *,
    state: str,
    following: str,
    section: str,
    full: bool,
    width: int,
) -> str:
    """Format the story, the fault that ended the run (or with `full`, every fault in it), and the next command.

    Args:
        run: the run directory, as given by the user.
        state: the words to append to the outcome of an unfinished run.
        following: the next command to suggest for such a run.
        section: a description of the machine's problems.
    """
    shown = list(diagnoses) if full else _of_the_end(story, diagnoses)
    told = as_text(story, run, state, headline, width)
    if shown:
        of_what = "the whole run" if full else "the end of the run"
        return f"{told}\n{render.as_text(shown, of_what, following=following, width=width, section=section)}"
    if diagnoses and not full:
        following = following or f"Next: oomph explain {shlex.quote(run)} --full  ({_MORE})"
    last = render.last_lines(following, width) if following else ""
    return "\n".join(part for part in (told, section, last) if part)


def _of_the_end(story: Story, diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Return the diagnoses of the fault that ended the run, or all of them if the evidence does not show that fault."""
    if not story.failed or story.stopped:
        return []
    last = story.incidents[-1].fault if story.incidents else ""
    return [diagnosis for diagnosis in diagnoses if diagnosis.name == last] or list(diagnoses)


def headline(fault: str) -> str:
    """Return a fault's name, with the code of its page if it has one."""
    page = find(fault)
    return fault if page is None else render.headline(page)


def _exit_code(events: Sequence[Event]) -> int | None:
    """Return the latest oomph invocation's exit code, or None if it has not exited, even if earlier ones have."""
    newest = max((event.attempt for event in events), default=0)
    ended = [each.exit_code for each in facts((event for event in events if event.attempt == newest), RunEnded)]
    return ended[-1] if ended and isinstance(ended[-1], int) else None


SCHEMA = 1
_MOST_SHOWN = 20


def runs_in(folder: Path) -> list[Path]:
    """Return all run directories in a folder, newest first, including those named with --run-dir and in `.oomph`."""
    places = (folder, folder / "runs", folder / ".oomph" / "runs", *_inside(folder, ".oomph/runs"))
    runs = {run: at for place in places for run in _inside(place) if (at := _changed(run)) is not None}
    return sorted(sorted(runs), key=lambda run: runs[run], reverse=True)


def _inside(folder: Path, name: str = "") -> list[Path]:
    """Return a folder's entries, or the path `name` inside each; an empty list if the folder cannot be read."""
    try:
        return [path / name for path in folder.iterdir()]
    except OSError:
        return []


def _changed(run: Path) -> float | None:
    """Return when a run last changed, as Unix time, even if run.json is missing; None if the folder is not a run."""
    for name in ("run.json", "journal"):
        try:
            found = (run / name).stat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) == (name == "journal"):
            return found.st_mtime
    return None


def list_as_text(runs: Sequence[Path], width: int) -> str:
    """Format one line for each run, and the command that explains the newest run."""
    lines = []
    for path in runs[:_MOST_SHOWN]:
        record = read_record(path)
        if record is None:
            told = "written by another version" if written_by_another(path) else "run.json is damaged"
        else:
            state = _state(path, record)
            told = f"{RUNNING if state == 'going-on' else state:<10} {shlex.join(record.command)}"
        lines.append(shown_line(f"{path}  {told}"))
    if len(runs) > _MOST_SHOWN:
        lines.append(f"... and {len(runs) - _MOST_SHOWN} older ones")
    following = shown_line(f"Next: oomph explain {shlex.quote(str(runs[0]))}  (the newest)")
    return "\n".join([*lines, render.last_lines(following, width)])


def list_as_document(runs: Sequence[Path]) -> dict[str, Any]:
    """Return a JSON document that lists the runs."""
    records = [(path, read_record(path)) for path in runs]
    entries = [
        {
            "path": str(path),
            "status": record and record.status,
            "state": record and _state(path, record),
            "command": record and list(record.command),
        }
        for path, record in records
    ]
    return {"schema": SCHEMA, "runs": entries}


def _state(path: Path, record: RunRecord) -> str:
    """Return the state as in `oomph explain RUN --json` or, for a finished run, the status in run.json."""
    left = unfinished(path)
    return record.status if left is None else left.name
