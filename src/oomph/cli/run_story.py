"""The output of `oomph explain RUN`: the run's story, then the evidence and remedies of what ended it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from oomph.explain import render
from oomph.explain.catalogue.catalogue import find
from oomph.explain.matching.named_fault import Diagnosis, OwnCommand
from oomph.journal.events import AttemptStarted, RunEnded
from oomph.journal.journal import Event, facts, read_journal
from oomph.run.directory.run_directory import read_record
from oomph.run.report.next_command import options_without_a_run
from oomph.run.report.story import Story, story_of
from oomph.run.report.story_text import as_text
from oomph.run.report.summary import summarise

_MORE = "the evidence of every fault, and what to do about it"


def story_of_run(run: Path) -> Story | None:
    """The story of a run; None if its journal has none."""
    events = read_journal(run)
    if not facts(events, AttemptStarted):
        return None
    record = read_record(run)
    typed, words = ((), ()) if record is None else (record.options, record.command)
    return story_of(events, summarise(events, _exit_code(events)), typed, words)


def command_of_run(run: Path) -> OwnCommand:
    """The command that started the run; empty when its record cannot be read."""
    record = read_record(run)
    return OwnCommand() if record is None else OwnCommand(tuple(options_without_a_run(record.options)), record.command)


def text(
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
    """The story, what ended the run (with `full`: every fault in it), and the next command.

    Args:
        run: the run directory, as the user named it.
        state: follows the outcome of a run that is not over.
        following: the next command of such a run.
        section: what was wrong with the machine.
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
    """The diagnoses of the fault that ended the run; all if the evidence does not show that one."""
    if not story.failed or story.stopped:
        return []
    last = story.incidents[-1].fault if story.incidents else ""
    return [diagnosis for diagnosis in diagnoses if diagnosis.name == last] or list(diagnoses)


def headline(fault: str) -> str:
    """The name of a fault, with the code of its page if it has one."""
    page = find(fault)
    return fault if page is None else f"{page.name} ({page.code})"


def _exit_code(events: Sequence[Event]) -> int | None:
    """The exit code of the newest call of oomph; None if it has not ended, even if earlier calls have."""
    newest = max((event.attempt for event in events), default=0)
    ended = [each.exit_code for each in facts((event for event in events if event.attempt == newest), RunEnded)]
    return ended[-1] if ended and isinstance(ended[-1], int) else None
