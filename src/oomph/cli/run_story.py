"""What `oomph explain RUN` prints: the run's own story first, then the evidence and remedies of what ended it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oomph.faults import render
from oomph.faults.catalogue.catalogue import find
from oomph.faults.matching.named_fault import Diagnosis
from oomph.journal import Event, read_journal
from oomph.recovery.report.story import Story, story_of
from oomph.recovery.report.story_text import as_text
from oomph.recovery.report.summary import summarise
from oomph.recovery.run_directory.run_directory import read_record
from oomph.wrapping import wrapped


def story_of_run(run: Path) -> Story | None:
    """The story of a run; None when its journal tells none."""
    events = read_journal(run)
    if not any(event.name == "attempt-started" for event in events):
        return None
    record = read_record(run)
    typed, words = ((), ()) if record is None else (record.options, record.command)
    return story_of(events, summarise(events, _exit_code(events)), typed, words)


def text(
    story: Story, run: str, diagnoses: Sequence[Diagnosis], state: str, following: str, full: bool, width: int
) -> str:
    """The story, what ended the run (with `full`: every fault in it), and the next command.

    Args:
        state: follows the outcome of a run that is not over.
        following: the next command of such a run.
    """
    shown = list(diagnoses) if full else _of_the_end(story, diagnoses)
    parts = [as_text(story, run, state, _headline, width)]
    if shown:
        parts.append(render.as_text(shown, "the evidence", width=width))
    more = f"Next: oomph explain {run} --full  (the evidence of every fault, and what to do about it)"
    if not full and diagnoses and not shown:
        parts.append(wrapped(more, width, "  ", command=f"oomph explain {run} --full") + "\n")
    return "\n".join([*parts, *([wrapped(following, width, "  ") + "\n"] if following else [])])


def _of_the_end(story: Story, diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The diagnoses of the fault that ended the run; all if the evidence does not show that one."""
    if not story.failed:
        return []
    last = story.incidents[-1].fault if story.incidents else ""
    return [diagnosis for diagnosis in diagnoses if diagnosis.name == last] or list(diagnoses)


def _headline(fault: str) -> str:
    page = find(fault)
    return fault if page is None else f"{page.name} ({page.code})"


def _exit_code(events: Sequence[Event]) -> int | None:
    ended = [event.data.get("exit_code") for event in events if event.name == "run-ended"]
    return ended[-1] if ended and isinstance(ended[-1], int) else None
