"""The story of a run as text for people. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from oomph.recovery.report.story import Incident, Saving, Story

WIDTH = 80
_LONGEST = 300
_INDENT = "   "


def as_text(story: Story, run: str, state: str, headline: Callable[[str], str]) -> str:
    """The outcome, each fault with what was done and what it cost, and what would have saved the cost.

    Args:
        run: the run directory, as the user named it.
        state: follows the outcome of a run that is not over.
        headline: returns the name of a fault with its code.
    """
    lines = [*_filled(f"{run}: {story.outcome}{state}")]
    if story.result:
        lines += _filled(story.result, "  ")
    for number, incident in enumerate(story.incidents, 1):
        lines += ["", *_incident(number, incident, headline)]
    if story.savings:
        lines += ["", "To save it next time", *(line for saving in story.savings for line in _saving(saving))]
    return "\n".join(lines) + "\n"


def _incident(number: int, incident: Incident, headline: Callable[[str], str]) -> Iterator[str]:
    where = f" at {incident.place}" if incident.place else ""
    yield from _filled(f"{number}. {headline(incident.fault)}, attempt {incident.attempt}{where}", "", _INDENT)
    for head, text in (("shown by", incident.shown_by), ("oomph", incident.done), ("cost", incident.cost)):
        if text:
            start = f"{_INDENT}{head:<9}"
            yield from _filled(_shortened(text), start, " " * len(start))


def _saving(saving: Saving) -> Iterator[str]:
    yield from _filled(f"{saving.text}.", _INDENT, _INDENT)
    yield f"{_INDENT}  {saving.command}"


def _filled(text: str, start: str = "", rest: str | None = None) -> list[str]:
    indent = start if rest is None else rest
    wrap = textwrap.TextWrapper(WIDTH, start, indent, break_long_words=False, break_on_hyphens=False)
    return wrap.wrap(text)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
