"""The catalogue: every page under pages/, read once per process.

A page is `<CODE>-<name>.md`: TOML front matter between `+++` lines, then prose under fixed headings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from oomph.explain.catalogue import front_matter
from oomph.explain.catalogue.fault import SEVERITIES, SOURCES, SYSTEMS, Fault, remedies_in
from oomph.explain.catalogue.front_matter import PAGES
from oomph.files.patterns import lazy_pattern

SECTIONS = (
    "What happened",
    "Why",
    "How to tell it from its neighbours",
    "What oomph does, and what this changes in your run",
    "What you can do",
    "Example",
    "References",
)
_NAME = lazy_pattern(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z")


class PageError(ValueError):
    """A page of the catalogue is not as docs/how-to/add-a-fault.md describes it."""


@cache
def load(folder: Path = PAGES) -> tuple[Fault, ...]:
    """Every fault of the catalogue, ordered by code. Raises PageError for a page that cannot be read."""
    pages = sorted(folder.glob("*/*.md"), key=lambda path: path.name)
    return tuple(parse_page(path.read_bytes(), path) for path in pages)


def find(word: str, folder: Path = PAGES) -> Fault | None:
    """The fault with this code or name, in any case; None when there is none."""
    for fault in load() if folder == PAGES else load(folder):
        if word.casefold() in (fault.code.casefold(), fault.name):
            return fault
    return None


def parse_page(page: bytes, path: Path) -> Fault:
    """The fault that a page describes. Raises PageError saying what is wrong with the page."""
    made = front_matter.made(page)
    if made is not None:  # it was checked when that was written
        return _fault(made, path, page)
    try:
        fault = _fault(front_matter.parse(page), path, page)
        wrong = [*_in_body(fault, path), *_in_front(fault)]
    except (ValueError, KeyError, TypeError) as problem:
        raise PageError(f"{path.name}: {problem!r}") from problem
    for is_so, message in wrong:
        if is_so:
            raise PageError(f"{path.name}: {message}")
    return fault


def _fault(front: bytes, path: Path, page: bytes) -> Fault:
    tables: Mapping[str, Any] = json.loads(front.partition(b"\n")[0])
    return Fault(
        code=tables["code"],
        name=tables["name"],
        summary=tables["summary"],
        domain=path.parent.name,
        severity=tables["severity"],
        sticky=tables["sticky"],
        since=tables["since"],
        versions=tables["versions"],
        page=page,
        filed=tables["filed"],
        front=front,
        remedies=remedies_in(tables["remedies"]),
        leads_to=tuple(tables.get("leads_to", ())),
        follows_any=tables.get("follows_any", False),
        passes=tables.get("passes", False),
        looks_back=tables.get("looks_back", False),
    )


def _in_body(fault: Fault, path: Path) -> Iterator[tuple[bool, str]]:
    """Yield checks of the page's name and prose: whether the check fails, and the problem."""
    yield path.stem != f"{fault.code}-{fault.name}", "the file's name must be CODE-name.md"
    yield tuple(fault.sections) != SECTIONS, f"the headings must be {SECTIONS}, in this order"
    yield not fault.title, "there must be a title"


def _in_front(fault: Fault) -> Iterator[tuple[bool, str]]:
    """Yield checks of the page's front matter: whether the check fails, and the problem."""
    remedies = [*fault.remedies, *(remedy for each in fault.signatures for remedy in each.remedies)]
    yield not _NAME.match(fault.name), "the name must be kebab-case"
    yield fault.severity not in SEVERITIES, f"severity must be one of {SEVERITIES}"
    yield all(r.where for r in fault.remedies), "at least one remedy of the page must have no `where`"
    yield not {system for r in remedies for system in r.where} <= SYSTEMS.keys(), f"where must be of {tuple(SYSTEMS)}"
    yield not all(_is_open(r.text) for r in remedies), "a remedy's text must end without a full stop"
    yield any(not set(s.sources) <= set(SOURCES) for s in fault.signatures), f"sources must be of {SOURCES}"


def _is_open(text: str) -> bool:
    return bool(text) and (text[-1] != "." or text.endswith("..."))
