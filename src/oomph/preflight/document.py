"""Renders the findings of `oomph check`, and what would survive a fault, as text; reads and writes their JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oomph.preflight.facts.data import Data
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, WARNING, Examined, Result
from oomph.reach.request import LOOP
from oomph.terminal import panel
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line
from oomph.terminal.panel import screenful
from oomph.terminal.screen import RED, USUAL_WIDTH, YELLOW, Heads
from oomph.terminal.wrapping import shortened, wrapped

PROVED, UNCOMPARED, PARTLY, LOST, UNKNOWN = "exact", "uncompared", "partly", "lost", "unknown"
"""PROVED: tried and compared here. UNCOMPARED: no problem is known. UNKNOWN: not tried."""
SCHEMA = 1
_LONGEST_PLACE = 80
"""The maximum number of characters of a place in a repr."""
HEADS: Heads = {ERROR.upper(): RED, WARNING.upper(): YELLOW}
_STATES = {
    PROVED: "yes",
    UNCOMPARED: "no known problem",
    PARTLY: "in part",
    LOST: "no",
    UNKNOWN: "not known",
}


@dataclass(frozen=True)
class Carried:
    """The expected fate, after a fault, of one thing that training needs."""

    what: str
    """The name of the thing: "out of memory", "data", "seeds", "callbacks", "loop"."""
    state: str
    text: str
    """Its fate and the reason, in one sentence without a final full stop."""
    better: str = ""
    """The change that would improve its fate; empty if none is needed."""

    def as_document(self) -> dict[str, str]:
        """Return the fields as plain JSON."""
        return asdict(self)


def carried_of(document: Mapping[str, Any]) -> Carried:
    """Read the value from its JSON document. Raises KeyError or TypeError for any other document."""
    return Carried(*(str(document[name]) for name in ("what", "state", "text", "better")))


@dataclass(frozen=True)
class ReportedFinding:
    """One finding, as reported by the script's process."""

    code: str
    name: str
    severity: str
    message: str
    remedies: tuple[str, ...]
    where: str
    why: str = ""
    code_line: str = ""
    """The suggested replacement for the line; empty if there is none."""


@dataclass(frozen=True)
class Checked:
    """The outcome of checking one training run."""

    place: str
    found: tuple[ReportedFinding, ...]
    looked_at: str = ""
    """A one-line description of what was checked."""
    not_looked_at: str = ""
    """A sentence about fit calls in the script that were not checked; empty if the source contains none."""
    broken: tuple[str, ...] = ()
    """The rules that raised an error."""
    carried: tuple[Carried, ...] = ()
    """The fate, after a fault, of each thing that training needs."""
    memory: str = ""
    """A one-line summary of memory use."""

    def __repr__(self) -> str:
        return f"Checked({shortened(shown_line(self.place), _LONGEST_PLACE)!r}, {self.counts})"

    def __str__(self) -> str:
        return screenful(as_text(self, USUAL_WIDTH))

    def _repr_html_(self) -> str:
        """Return the findings as a panel for notebooks."""
        found = [f"{each.severity}: {each.message} ({each.code}). {'; '.join(each.remedies)}" for each in self.found]
        tone = panel.Tone.BAD if self.has_errors else panel.Tone.WARNING if self.found else panel.Tone.GOOD
        return panel.panel(
            f"{self.place}: {self.counts}",
            [
                panel.items(found),
                *(panel.paragraph(each, quiet=True) for each in (self.examined, self.not_looked_at) if each),
            ],
            tone,
        )

    @property
    def counts(self) -> str:
        """The number of errors and warnings, as text."""
        errors = sum(found.severity == ERROR for found in self.found)
        numbers = ((errors, "error"), (len(self.found) - errors, "warning"))
        return " and ".join(counted(number, word) for number, word in numbers if number) or "nothing found"

    @property
    def examined(self) -> str:
        """The clause that says what was examined; empty if unknown."""
        return f"examined {self.looked_at}" if self.looked_at else ""

    @property
    def has_errors(self) -> bool:
        """True if training will fail or the model cannot learn."""
        return any(found.severity == ERROR for found in self.found)


def as_document(
    examined: Examined,
    training: Training,
    carried: Sequence[Carried] = (),
    memory: str = "",
    not_looked_at: str = "",
) -> dict[str, Any]:
    """Return the findings for one training run as plain JSON, whose structure is part of the public interface."""
    return {
        "schema": SCHEMA,
        "place": training.fit.place,
        "looked_at": looked_at(training),
        "not_looked_at": not_looked_at,
        "findings": [_entry(result, training.fit.place) for result in examined.results],
        "carried": [each.as_document() for each in carried],
        "memory": memory,
        "broken_rules": list(examined.broken),
    }


def checked_of(document: Mapping[str, Any]) -> Checked:
    """Read the findings from their JSON document. Raises ValueError for any other document."""
    try:
        found = tuple(_found(entry) for entry in document["findings"])
        return Checked(
            place=str(document["place"]),
            found=found,
            looked_at=str(document["looked_at"]),
            not_looked_at=str(document["not_looked_at"]),
            broken=tuple(map(str, document["broken_rules"])),
            carried=tuple(carried_of(entry) for entry in document["carried"]),
            memory=str(document["memory"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the findings lack {error}") from error


def looked_at(training: Training) -> str:
    """Describe in one line what was checked: "640 of 60,000 samples, 6 steps on 32 of them"."""
    data = training.data
    rows = max((part.sample.rows for part in data.of("x") if part.sample is not None), default=0)
    of_all = f" of {data.samples:,}" if data.samples is not None and data.samples > rows else ""
    if training.fit.kind == LOOP:
        return "only the model and the first step, not the data"
    words = [f"{rows:,}{of_all} samples"] if rows else [_no_values(data)]
    if training.trial is not None and training.trial.losses:
        steps, of = len(training.trial.losses), "of them" if rows else "samples"
        words.append(f"{counted(steps, 'step')} on {training.trial.samples} {of}")
    return ", ".join(words)


def _no_values(data: Data) -> str:
    unread = f" (oomph cannot read those of a {data.unread})" if data.unread else ""
    return f"no data values{unread}"


def _entry(result: Result, place: str) -> dict[str, Any]:
    rule, finding = result.rule, result.finding
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": result.severity,
        "message": finding.message,
        "remedies": [finding.remedy],
        "line": finding.code,
        "where": finding.where or place,
        "why": rule.why,
    }


def _found(entry: Mapping[str, Any]) -> ReportedFinding:
    severity = entry["severity"]
    if severity not in (ERROR, WARNING):
        raise ValueError(f"unknown severity: {severity}")
    remedies = tuple(map(str, entry["remedies"]))
    texts = (str(entry[name]) for name in ("where", "why", "line"))
    return ReportedFinding(str(entry["code"]), str(entry["name"]), severity, str(entry["message"]), remedies, *texts)


def as_text(checked: Checked, width: int, above: Sequence[str] = ()) -> Iterator[str]:
    """Yield the findings as readable lines, errors first, followed by a line with their counts.

    Args:
        checked: the findings.
        width: the width of the terminal, in columns.
        above: lines about the machine and its memory, to print first.
    """
    for line in above:
        yield _wrapped(line, width, "  ")
    if above:
        yield ""
    for found in checked.found:
        yield from _finding(found, checked.place, width)
        yield ""
    if checked.carried:
        yield "Would oomph run carry it through a fault?"
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
    yield _wrapped(f"{checked.place}: {checked.counts}; {checked.examined}", width, "  ")
    if checked.not_looked_at:
        yield _wrapped(checked.not_looked_at, width, "  ")
    if checked.broken:
        rules = ", ".join(checked.broken)
        yield _wrapped(f"these rules raised an error, so they found nothing: {rules}", width, "  ")


def _wrapped(text: str, width: int, indent: str) -> str:
    return wrapped(shown_line(text), width, indent)
