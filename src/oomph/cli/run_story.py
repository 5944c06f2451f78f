"""Joins the story of a run and the diagnoses of its faults, for `oomph explain`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from oomph.explain import render
from oomph.explain.catalogue.catalogue import find
from oomph.explain.matching.named_fault import Diagnosis
from oomph.journal.events import Decided
from oomph.journal.journal import last, read_journal
from oomph.run.report.story import Story, as_text

_MORE = "the evidence of every fault, and what to do about it"


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
    """Return the diagnoses of the fault that ended the run, or all of them if the evidence does not show that fault.

    All of them, too, if the journal was lost, since they are all that is known.
    """
    if story.gap and not story.incidents:
        return list(diagnoses)
    if not story.failed or story.stopped:
        return []
    last = story.incidents[-1].fault if story.incidents else ""
    return [diagnosis for diagnosis in diagnoses if diagnosis.name == last] or list(diagnoses)


def headline(fault: str) -> str:
    """Return a fault's name, with the code of its page if it has one."""
    page = find(fault)
    return fault if page is None else render.headline(page)
