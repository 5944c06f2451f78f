"""The findings as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.preflight.document import LOST, PARTLY, PROVED, UNCOMPARED, UNKNOWN, Carried, Checked, ReportedFinding
from oomph.preflight.rule import ERROR, WARNING
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line
from oomph.terminal.screen import RED, YELLOW, Heads
from oomph.terminal.wrapping import wrapped

HEADS: Heads = {ERROR.upper(): RED, WARNING.upper(): YELLOW}
_STATES = {
    PROVED: "yes",
    UNCOMPARED: "nothing known against it",
    PARTLY: "in part",
    LOST: "no",
    UNKNOWN: "not known",
}


def as_text(checked: Checked, width: int, above: Sequence[str] = ()) -> Iterator[str]:
    """The findings for people, errors first, and a last line that counts them.

    Args:
        checked: the findings.
        width: of the terminal, in columns.
        above: lines on machine and memory, to come first.
    """
    for line in above:
        yield _wrapped(line, width, "  ")
    if above:
        yield ""
    for found in checked.found:
        yield from _finding(found, checked.place, width)
        yield ""
    if checked.carried:
        yield "Would oomph run carry it over a fault?"
        for each in checked.carried:
            yield from _carried(each, width)
        yield ""
    yield from _closing(checked, width)


def _carried(each: Carried, width: int) -> Iterator[str]:
    yield _wrapped(f"  {each.what}: {_STATES[each.state]}; {each.text}", width, "    ")
    if each.better:
        yield _wrapped(f"    better: {each.better}", width, "      ")


def _finding(found: ReportedFinding, place: str, width: int) -> Iterator[str]:
    where = f" [{found.where}]" if found.where and found.where != place else ""
    head = f"{found.severity.upper():7} {found.name} ({found.code}): {found.message}{where}"
    yield _wrapped(head, width, " " * 8)
    if found.why:
        yield _wrapped(f"        why   {found.why}", width, " " * 14)
    for remedy in found.remedies:
        yield _wrapped(f"        fix   {remedy}.", width, " " * 14)
    if found.code_line:
        yield f"                {shown_line(found.code_line)}"


def _closing(checked: Checked, width: int) -> Iterator[str]:
    errors = sum(found.severity == ERROR for found in checked.found)
    warnings = sum(found.severity == WARNING for found in checked.found)
    named = " and ".join(counted(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number)
    looked = f"looked at {checked.looked_at}" if checked.looked_at else ""
    yield _wrapped(f"{checked.place}: {named or 'nothing found'}; {looked}", width, "  ")
    if checked.not_looked_at:
        yield _wrapped(checked.not_looked_at, width, "  ")
    if checked.broken:
        rules = ", ".join(checked.broken)
        yield _wrapped(f"these rules raised an error and found nothing: {rules}", width, "  ")


def _wrapped(text: str, width: int, indent: str) -> str:
    return wrapped(shown_line(text), width, indent)
