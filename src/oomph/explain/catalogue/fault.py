"""Fault, Signature and Remedy: frozen values that represent a page of the catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from oomph.explain.facts.condition import condition
from oomph.explain.facts.fact import LogFacts
from oomph.files.patterns import lazy_pattern

SEVERITIES = ("recoverable", "restart", "fatal")
SOURCES = ("log", "exception", "exit", "memory-map", "trend")
_FENCE = "+++"
LINUX = "linux"
SYSTEMS = {
    "windows": "Windows",
    "wsl": "WSL",
    "macos": "macOS",
    "colab": "Colab and Kaggle",
    "container": "containers",
    "slurm": "Slurm",
    LINUX: "Linux",
}
"""The systems that a remedy may apply to. `linux` means a Linux machine that is none of the others."""
KINDS = {
    "pin": "the version of a package",
    "argument": "the script",
    "data": "the data",
    "environment": "variables or options of the process",
    "machine": "the machine, its driver or its other processes",
    "nothing": "",
}
"""The kinds of things that a remedy may change."""
USUAL_KIND = "argument"
"""The kind of a remedy whose row does not say it."""
_TYPED_SAFELY = re.compile(r"[\w./][\w.:/+,=-]*")
"""Values from a log that are safe in a command, since every shell reads them as plain words."""


class Remedy(NamedTuple):
    """Something that can be done about a fault."""

    text: str
    command: str = ""
    """The command to type, which may contain captured values: "pip install numpy=={needed}"."""
    action: str = ""
    """The recovery action with which oomph applies the remedy itself; empty if only a person can do so."""
    changes: str = ""
    """The effect of the remedy on training; empty if there is none."""
    known: str = ""
    """The text to use instead if its values were captured: "{requested} were asked for ...". Ignored if one is
    missing."""
    where: tuple[str, ...] = ()
    """The systems that the remedy applies to, from SYSTEMS; empty for all."""
    needs: tuple[str, ...] = ()
    """The conditions that the log must state, all of them; see `oomph.explain.facts.condition`."""
    unless: tuple[str, ...] = ()
    """The conditions that contradict the remedy: it is not shown if the log states one of them."""
    applies: str = ""
    """The sign by which a person can tell that this is the remedy to choose: "the card is older than Pascal"."""
    kind: str = ""
    """The kind of thing that it changes, from KINDS."""
    says: str = ""
    """A regular expression for the words of the log that it answers, whose named groups become captured values; empty
    if it is a remedy for the fault as such."""

    def fits(self, systems: Set[str], facts: LogFacts) -> bool:
        """True if the remedy applies to a machine that these systems describe, and no fact contradicts it."""
        return (
            (not self.where or not systems.isdisjoint(self.where))
            and all(condition(each).is_met(facts) for each in self.needs)
            and not any(condition(each).is_met(facts) for each in self.unless)
        )

    def answered(self, texts: Iterable[str]) -> Mapping[str, str] | None:
        """Return the values in the words that it answers, or None if the texts do not contain such words."""
        found = next((match for text in texts if (match := compiled(self.says).search(text)) is not None), None)
        return None if found is None else {name: value for name, value in found.groupdict().items() if value}

    def filled(self, captured: Mapping[str, str]) -> Remedy:
        """Return the remedy with the captured values filled into its text and command."""
        typed = {name: value for name, value in captured.items() if _TYPED_SAFELY.fullmatch(value)}
        text = _filled(self.known or (self.text if self.says else ""), captured) or self.text
        if text.endswith(".") and not text.endswith("..."):  # a value may already end in a full stop
            text = text[:-1]
        return self._replace(text=text, command=_filled(self.command, typed))

    @property
    def told(self) -> str:
        """The text, preceded by the sign by which to tell that this is the remedy to choose."""
        return f"If {self.applies}: {as_clause(self.text)}" if self.applies else self.text

    @property
    def titled(self) -> str:
        """The text, preceded by the systems that it applies to."""
        systems = ", ".join(SYSTEMS[system] for system in self.where)
        return f"{systems}: {self.text}" if systems else self.text

    def as_document(self) -> dict[str, str]:
        """Return the remedy as JSON values."""
        text = f"{self.text}: {self.command}" if self.command else self.text
        return {"text": text, "action": self.action} if self.action else {"text": text}


def _filled(template: str, captured: Mapping[str, str]) -> str:
    """Fill the values into the template. Returns an empty string if one is missing."""
    try:
        return template.format_map(captured)
    except (KeyError, ValueError, IndexError):
        return ""


class Signature(NamedTuple):
    """A wording or exit status by which a fault is recognised.

    The literal is searched for first, so that the pattern is compiled and tried only where it can match.
    """

    literal: str
    pattern: str = ""
    """A regular expression whose named groups become captured values; empty if the literal alone is enough."""
    sources: tuple[str, ...] = ("log", "exception")
    confidence: float = 0.9
    """The confidence that this wording gives on its own, from 0 to 1. Independent signatures are combined by
    noisy-or."""
    alone: bool = True
    """True if this wording is enough to report the fault. Otherwise, it only supports other signatures."""
    excludes: tuple[str, ...] = ()
    """The words that make a line benign noise."""
    outlived: bool = False
    """True if the line can be ignored once training continues, for example on a machine that intentionally has no
    GPU."""
    goes_on: bool = False
    """True if the literal may start or end in the middle of a longer word, like hipError in hipErrorUnknown."""
    rivals: tuple[str, ...] = ()
    """The names of faults that print the same words. They are suggested after this fault if nothing else is found."""
    id: str = ""
    needs: tuple[str, ...] = ()
    """The ids of signatures on the same page that must all have been seen before this one counts."""
    unless: tuple[str, ...] = ()
    """The ids of signatures on the same page that cancel this one, wherever they appear."""
    beside: tuple[str, ...] = ()
    """The ids of signatures on the same page, at least one of which must appear before or after this one."""
    inside: bool = False
    """True if this wording counts only for errors raised by the code of an installed package."""
    in_training: bool = False
    """True if other programs also print this wording, so that it counts only in training logs."""
    replaces: bool = False
    """True if this wording's remedies replace all others, which do not fit it."""
    advice: str = ""
    """This wording's remedies as JSON, parsed only when needed."""

    def __hash__(self) -> int:
        return hash((self.literal, self.pattern))  # looked up for every line; hashing the other fields would be slower

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The remedies for this exact wording, best first. The remedies of the page come after them."""
        return remedies_in(json.loads(self.advice)) if self.advice else ()

    @property
    def only_prepares(self) -> bool:
        """True if the signature only prepares other signatures, so that only its first occurrence counts."""
        return not self.alone and not self.confidence

    def match(self, text: str) -> Mapping[str, str] | None:
        """Return the captured values if the text matches, or None otherwise."""
        if self.literal not in text or any(word in text for word in self.excludes):
            return None
        if not self.pattern:
            return {}
        found = compiled(self.pattern).search(text)
        return None if found is None else {key: value for key, value in found.groupdict().items() if value}


Filed: TypeAlias = tuple[str, str, Sequence[str], int]
"""A literal, a whole word in it ("" if none), its sources, and the index of the line of `front` that has the rest."""


class Fault(NamedTuple):
    """A kind of failure, read from its page."""

    code: str
    name: str
    summary: str
    """A single factual sentence."""
    domain: str
    severity: str
    """The severity: "recoverable" (the process can continue), "restart" (a new process can) or "fatal" (a new process
    would fail too)."""
    sticky: bool
    """True if the CUDA context (or the process) is lost, so that nothing can be saved any longer."""
    since: str
    versions: str
    page: bytes
    """The raw page."""
    filed: Sequence[Filed] = ()
    """The literals of the signatures, in page order, which are enough to find candidates for a line."""
    front: bytes = b""
    """The front matter as lines of JSON. Lines after the first are parsed only when needed."""
    remedies: tuple[Remedy, ...] = ()
    advice: str = ""
    """The remedies that answer single wordings as JSON, parsed only when needed."""
    leads_to: tuple[str, ...] = ()
    """The names of faults that count as its consequences if they follow it."""
    follows_any: bool = False
    """True if the fault is merely a way for a program to end, and therefore a consequence of any earlier fault."""
    passes: bool = False
    """True if the program survives the fault, so that any later error has a different cause."""
    looks_back: bool = False
    """True if the fault causes those in `leads_to` even when it appears after them, as in a system log."""
    machine: bool = False
    """True if the machine that it occurs on may be the cause, so that it counts when machines are compared."""

    def __repr__(self) -> str:
        return f"Fault({self.code} {self.name})"

    def __str__(self) -> str:
        return f"{self.name} ({self.code}): {self.summary}"

    def __hash__(self) -> int:
        return hash(self.code)  # the lists from JSON are not hashable

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The wordings and exit statuses by which the fault is recognised, in page order."""
        return tuple(map(self.signature, self.filed))

    @property
    def answers(self) -> tuple[Remedy, ...]:
        """The remedies that answer what a log says besides the fault's name, the most specific first."""
        return _answers(self.advice)

    def signature(self, filed: Filed) -> Signature:
        """Build the signature for a filed literal, using the rest of its front matter."""
        literal, _, sources, line = filed
        return _signature(literal, tuple(sources), _lines(self.front)[line])

    @property
    def title(self) -> str:
        """The heading of the page, such as "Device out of memory"."""
        return _prose(self.page)[0]

    @property
    def sections(self) -> Mapping[str, str]:
        """The prose of the page by heading, in page order."""
        return _prose(self.page)[1]

    @property
    def text(self) -> str:
        """The whole page as text."""
        return self.page.decode()

    @property
    def example(self) -> str:
        """The real log from the page's Example section, without its fence."""
        return fenced(self.sections.get("Example", ""))


def sentence(text: str) -> str:
    """Add a full stop to the text unless it already ends in one, or in "..."."""
    return text if text.endswith(".") else f"{text}."


def as_clause(text: str) -> str:
    """Begin the text in lower case, for the middle of a sentence, unless it begins with a name such as TensorFlow."""
    word = text.partition(" ")[0]
    return text if word[1:] != word[1:].lower() else text[:1].lower() + text[1:]


def remedies_in(tables: Iterable[Mapping[str, Any]]) -> tuple[Remedy, ...]:
    """Return the remedies from the tables in a page's front matter."""
    return tuple(Remedy(**{name: _frozen(value) for name, value in table.items()}) for table in tables)


@cache
def _answers(advice: str) -> tuple[Remedy, ...]:
    return remedies_in(json.loads(advice)) if advice else ()


@cache
def _signature(literal: str, sources: tuple[str, ...], rest: bytes) -> Signature:
    fields = {name: _frozen(value) for name, value in json.loads(rest).items()}
    return Signature(literal=literal, sources=sources, **fields)


@cache
def _lines(front: bytes) -> Sequence[bytes]:
    return front.split(b"\n")


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def split(page: str) -> tuple[str, str]:
    """Split a page into its front matter and the rest. Raises ValueError if there is no front matter."""
    _, front, body = page.split(_FENCE, 2)
    return front, body


@cache
def _prose(page: bytes) -> tuple[str, Mapping[str, str]]:
    heading, *sections = split(page.decode())[1].split("\n## ")
    prose = {name: text.strip("\n") for name, _, text in (section.partition("\n") for section in sections)}
    return heading.strip().removeprefix("# "), MappingProxyType(prose)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. The result is cached."""
    return re.compile(pattern)


def fenced(markdown: str) -> str:
    """Return the contents of the first fenced block in the Markdown; empty if there is none."""
    inside: list[str] | None = None
    for line in markdown.split("\n"):
        if line.startswith("```"):
            if inside is not None:
                break
            inside = []
        elif inside is not None:
            inside.append(line)
    return "\n".join(inside or ())


SECTION = "How to tell it from its neighbours"

_CODE = lazy_pattern(r"\b[A-Z]{3}\d{3}\b")
_POINT = lazy_pattern(r"\n(?=- )|(?<=[.;]) (?=[A-Z`])")
_LEADING_CODES = lazy_pattern(r"\A(?:[A-Z]{3}\d{3}(?:, | and | to )?){1,9}:? ")


@cache
def neighbours(fault: Fault) -> Mapping[str, str]:
    """Return the codes mentioned in the page's section on its neighbours, in order, each with its sentence."""
    told: dict[str, str] = {}
    for point in _POINT.split(fault.sections.get(SECTION, "")):
        text = " ".join(point.removeprefix("- ").split())
        for code in _CODE.findall(text):
            if code != fault.code:
                told.setdefault(code, _LEADING_CODES.sub("", text))
    return told
