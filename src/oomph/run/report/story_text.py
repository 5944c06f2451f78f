"""The story of a run as text for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oomph.run.report.found import Found
from oomph.run.report.story import Incident, Saving, Story
from oomph.terminal.amounts import as_duration
from oomph.terminal.wrapping import wrapped

_LONGEST = 300
_INDENT = "   "


def as_text(story: Story, run: str, state: str, headline: Callable[[str], str], width: int) -> str:
    """The outcome, each fault with what was done and what it cost, and what would have saved the cost.

    Args:
        run: the run directory, as the user named it.
        state: follows the outcome of a run that is not over.
        headline: returns the name of a fault with its code.
    """
    lines = [wrapped(f"{run}: {story.outcome}{state}", width, "  ")]
    if story.result:
        lines.append(wrapped(story.result, width, "  ", "  "))
    if story.improvement:
        lines.append(wrapped(f"to improve it: {story.improvement}", width, "  ", "  "))
    for number, incident in enumerate(story.incidents, 1):
        lines += ["", *_incident(number, incident, headline, width)]
    if story.findings:
        lines += [
            "",
            "Found while it ran",
            *(line for found in story.findings for line in _finding(found, headline, width)),
        ]
    if story.savings:
        lines += ["", "To save it next time", *(line for saving in story.savings for line in _saving(saving, width))]
    return "\n".join(lines) + "\n"


def _incident(number: int, incident: Incident, headline: Callable[[str], str], width: int) -> Iterator[str]:
    where = f" at {incident.place}" if incident.place else ""
    yield wrapped(f"{number}. {headline(incident.fault)}, attempt {incident.attempt}{where}", width, _INDENT)
    for head, text in (("shown by", incident.shown_by), ("oomph", incident.done), ("cost", incident.cost)):
        if text:
            start = f"{_INDENT}{head:<9}"
            yield wrapped(_shortened(text), width, " " * len(start), start)


def _finding(found: Found, headline: Callable[[str], str], width: int) -> Iterator[str]:
    yield wrapped(f"{headline(found.fault)}, {found.subject}", width, _INDENT, _INDENT)
    lasted = as_duration(found.seconds) if found.seconds >= 1 else ""
    for head, text in (("shown by", found.message), ("lasted", lasted), ("to do", found.remedy)):
        if text:
            start = f"{_INDENT}{head:<9}"
            yield wrapped(text, width, " " * len(start), start)


def _saving(saving: Saving, width: int) -> Iterator[str]:
    yield wrapped(f"{saving.text}.", width, _INDENT, _INDENT)
    yield f"{_INDENT}  {saving.command}"


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
