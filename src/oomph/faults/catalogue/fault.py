"""Fault, Signature and Remedy: one page of the catalogue as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

SEVERITIES = ("recoverable", "restart", "fatal")
SOURCES = ("log", "exception", "exit", "memory-map", "trend")


class Signature(NamedTuple):
    """One wording or exit status by which a fault is recognised.

    The literal is looked for first, so that a pattern is compiled and tried only where it may match.
    """

    literal: str
    pattern: str = ""
    """A regular expression; its named groups become captured values. Empty: the literal is enough."""
    sources: tuple[str, ...] = ("log", "exception")
    confidence: float = 0.9
    """How sure this wording alone makes us, 0 to 1. Independent signatures add up (noisy or)."""
    alone: bool = True
    """Whether this wording is enough to report the fault; if not, it only adds to what others show."""
    excludes: tuple[str, ...] = ()
    """Words that turn the same line into benign noise."""
    outlived: bool = False
    """Whether the line means nothing when training goes on after it, as on a machine that has no GPU on purpose."""
    goes_on: bool = False
    """Whether the first or last word of the literal may go on in the text, as hipError in hipErrorUnknown."""
    rivals: tuple[str, ...] = ()
    """Names of faults that print the same words: given after it, as a suspicion, where nothing else is found."""
    id: str = ""
    needs: tuple[str, ...] = ()
    """Signatures of the same page (by id) that must have been seen before this one counts."""
    unless: tuple[str, ...] = ()
    """Signatures of the same page (by id) that make this one mean nothing, wherever they stand."""
    beside: tuple[str, ...] = ()
    """Signatures of the same page (by id) of which one must stand somewhere, before or after this one."""

    def __hash__(self) -> int:
        return hash((self.literal, self.pattern))  # it is looked up for every line; the other fields would cost more

    @property
    def only_prepares(self) -> bool:
        """Whether others merely ask if it was seen: its first place is all that counts."""
        return not self.alone and not self.confidence

    def match(self, text: str) -> Mapping[str, str] | None:
        """The captured values if this text bears the signature, else None."""
        if self.literal not in text or any(word in text for word in self.excludes):
            return None
        if not self.pattern:
            return {}
        found = compiled(self.pattern).search(text)
        return None if found is None else {key: value for key, value in found.groupdict().items() if value}


class Remedy(NamedTuple):
    """One thing to do about a fault."""

    text: str
    command: str = ""
    action: str = ""
    """The recovery action by which oomph does this itself; empty when only a person can."""
    changes: str = ""
    """What this changes in the training; empty when it changes nothing."""
    known: str = ""
    """The text when values were captured: "{requested} were asked for ...". Ignored when one of them is missing."""

    def says(self, captured: Mapping[str, str]) -> str:
        """The text, with the captured values where they are known."""
        try:
            return self.known.format_map(captured) or self.text
        except KeyError:
            return self.text

    def types(self, captured: Mapping[str, str]) -> str:
        """The command, with captured values in it; empty when one of them is missing."""
        try:
            return self.command.format_map(captured) if "{" in self.command else self.command
        except (KeyError, ValueError, IndexError):
            return self.command


class Fault(NamedTuple):
    """A kind of thing that goes wrong, read from its page."""

    code: str
    name: str
    title: str
    """The page's heading: "Device out of memory"."""
    summary: str
    """One sentence of fact."""
    domain: str
    severity: str
    """recoverable: the process can go on; restart: a new one can; fatal: another start repeats it."""
    sticky: bool
    """Whether the CUDA context (or the process) is lost, so that nothing can be saved from it any more."""
    since: str
    versions: str
    signatures: tuple[Signature, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    leads_to: tuple[str, ...] = ()
    """Names of faults that are this one's consequence when they follow it."""
    follows_any: bool = False
    """Whether it is only the way in which a program ends: the consequence of any fault found before it."""
    passes: bool = False
    """Whether the program goes on after it, so that an error which follows has a cause of its own."""
    looks_back: bool = False
    """Whether it is the cause of what it leads to even when it is seen only afterwards, as in a log of the system."""
    sections: Mapping[str, str] = MappingProxyType({})
    """The page's prose by heading, in page order."""
    text: str = ""
    """The whole page, as it was written."""

    def __hash__(self) -> int:
        return hash(self.code)  # the prose by heading has none

    @property
    def example(self) -> str:
        """The real log of the page's Example section, without its fence."""
        return fenced(self.sections.get("Example", ""))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once, when something first asks for it."""
    return re.compile(pattern)


def fenced(markdown: str) -> str:
    """The content of the first fenced block of a Markdown text; empty when there is none."""
    inside: list[str] | None = None
    for line in markdown.split("\n"):
        if line.startswith("```"):
            if inside is not None:
                break
            inside = []
        elif inside is not None:
            inside.append(line)
    return "\n".join(inside or ())
