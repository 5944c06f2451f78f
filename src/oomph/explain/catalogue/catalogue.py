"""The catalogue: every page under pages/, read once per process.

A page is a file `<CODE>-<name>.md`: TOML front matter between `+++` lines, then prose under fixed headings. Its front
matter names remedies by the ids that they have in remedies.toml. front.jsonl contains the front matter as JSON, with
the remedies written out, which can be read ten times as fast. It is written when oomph is built or installed
(`hatch_build.py`). For pages that have changed since, or if a remedy has, the TOML is read instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any
from zlib import crc32

from oomph.explain.catalogue.fault import KINDS, SEVERITIES, SOURCES, SYSTEMS, USUAL_KIND, Fault, remedies_in, split
from oomph.explain.facts.condition import condition
from oomph.files.patterns import lazy_pattern

PAGES = Path(__file__).parents[1] / "pages"
REMEDIES = Path(__file__).with_name("remedies.toml")
MADE = Path(__file__).with_name("front.jsonl")
_SOURCES = ("log", "exception")


def made_front(page: bytes) -> bytes | None:
    """Return the lines of JSON that `parse_front` produced at installation, or None if the page has changed since."""
    return _made_fronts().get(_checksum_of_page(page))


def parse_front(page: bytes) -> bytes:
    """Parse the front matter of a page into lines of JSON. Raises ValueError if the page has none.

    The first line contains the tables, with `filed` in place of the signatures: each literal with its word, its sources
    and a line number. Each of the following lines contains the rest of one signature.
    """
    tables = _toml(split(page.decode())[0])
    signatures: Sequence[dict[str, Any]] = tables.pop("signatures", ())
    tables["remedies"] = _written_out(tables["remedies"])
    tables["answers"] = json.dumps(_written_out(tables.get("answers", ())), ensure_ascii=False)
    tables["filed"] = [each for line, table in enumerate(signatures, 1) for each in _filed(table, line)]
    return "\n".join(map(json.dumps, (tables, *map(_rest, signatures)))).encode()


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib  # slower than everything else here, and rarely needed
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(text)
    return tables


def _filed(table: Mapping[str, Any], line: int) -> Iterator[list[Any]]:
    """Yield an entry for each literal of a signature. Several literals may share the rest of the signature."""
    for literal in table.get("literals") or [table["literal"]]:
        yield [literal, "" if table.get("goes_on") else key(literal), table.get("sources", _SOURCES), line]


def _rest(table: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in table.items() if name not in ("literal", "literals", "sources", "remedies")}
    if table.get("confidence") == 0:
        rest["alone"] = False
    if "remedies" in table:  # as a string, which is almost free until it is parsed
        rest["advice"] = json.dumps(_written_out(table["remedies"]), ensure_ascii=False)
    return rest


def _written_out(ids: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the remedies with these ids: one for each command, if one has several. Raises ValueError if unknown."""
    table = remedy_rows()
    if unknown := set(ids) - table.keys():
        raise ValueError(f"there is no remedy called {', '.join(sorted(unknown))}")
    return [remedy for each in ids for remedy in _by_command(table[each])]


def _by_command(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    rest = {"kind": USUAL_KIND, **{name: value for name, value in row.items() if name != "commands"}}
    for command in row.get("commands", ({},)):
        yield {**rest, **command}


@cache
def remedy_rows() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of remedies.toml, by id."""
    return _toml(REMEDIES.read_text(encoding="utf-8"))


def front_document(pages: Sequence[bytes]) -> bytes:
    """Return the contents of front.jsonl.

    It starts with a line of checksums, first of everything that follows and then of each page. The lines of each page
    follow.
    """
    parsed = [parse_front(page) for page in pages]
    checksums = [_checksum(parsed), *map(_checksum_of_page, pages)]
    return b"\n\n".join([json.dumps(checksums).encode(), *parsed])


def write_front() -> None:
    """Write front.jsonl from the current pages."""
    MADE.write_bytes(front_document([path.read_bytes() for path in sorted(PAGES.glob("*/*.md"))]))


@cache
def _made_fronts() -> Mapping[int, bytes]:
    """Return the lines of each page in front.jsonl, by page checksum; empty if the file is missing or damaged."""
    try:
        checksums, *parsed = MADE.read_bytes().split(b"\n\n")
        checksum, *pages = json.loads(checksums)
    except (OSError, ValueError):
        return {}
    return dict(zip(pages, parsed, strict=True)) if checksum == _checksum(parsed) else {}


def _checksum_of_page(page: bytes) -> int:
    """Return the checksum of a page and the remedies that it may refer to."""
    return crc32(page, _checksum_of_remedies())


@cache
def _checksum_of_remedies() -> int:
    return crc32(REMEDIES.read_bytes())


def _checksum(parsed: Iterable[bytes]) -> int:
    return reduce(lambda before, lines: crc32(lines, before), parsed, 0)


# -- filing a page ----------------------------------------------------------------------------------------------------

_WORD = lazy_pattern(r"[A-Za-z]+")
# Words in every training log. If a signature were filed under one of them, the reader would stop at every line.
_EVERYWHERE = frozenset(
    (
        *("a", "an", "and", "at", "by", "error", "file", "for", "from", "gpu", "in", "is", "it", "line", "loss"),
        *("most", "not", "of", "on", "op", "or", "python", "recent", "step", "tensor", "tensorflow", "the", "this"),
        *("to", "training", "was", "with", "you", "be", "are", "has", "have", "had", "but", "could", "must", "does"),
        *("data", "device", "devices", "gradient", "gradients", "image", "images", "memory", "size", "model", "path"),
        *("input", "inputs", "output", "value", "values", "version", "process", "type", "shape", "label", "labels"),
        *("function", "worker", "rank", "node", "weights", "weight", "variables", "variable", "batch", "layer", "code"),
        *("read", "load", "check", "status", "config", "module", "build", "start", "found", "valid", "range", "large"),
    )
)


@cache
def key(literal: str) -> str:
    """Return the word under which to file a literal, which is always a whole word, and as rare as possible.

    A word at the edge of the literal may be part of a longer one in the text ("ut of memory"), so a rare inner word is
    preferred. If there is none, a word at the edge is used, which must then be a whole word in the text. Raises
    ValueError if the literal does not contain a word.
    """
    words: list[str] = _WORD.findall(literal)
    if not words:
        raise ValueError(f"a literal must contain a word: {literal!r}")
    inner = words[literal.startswith(words[0]) : len(words) - literal.endswith(words[-1])]
    for of_its_kind in (_is_rare, _is_long):
        for found in (inner, words):
            if best := [word for word in found if of_its_kind(word)]:
                return max(best, key=len)
    return max(inner or words, key=len)


def _is_rare(word: str) -> bool:
    return _is_long(word) and word.lower() not in _EVERYWHERE


def _is_long(word: str) -> bool:
    return len(word) > 3


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
    """Raised if a page of the catalogue does not follow docs/how-to/add-a-fault.md."""


@cache
def load(folder: Path = PAGES) -> tuple[Fault, ...]:
    """Return every fault in the catalogue, ordered by code. Raises PageError if a page cannot be read."""
    pages = sorted(folder.glob("*/*.md"), key=lambda path: path.name)
    return tuple(parse_page(path.read_bytes(), path) for path in pages)


def find(word: str, folder: Path = PAGES) -> Fault | None:
    """Find the fault with this code or name, ignoring case, or return None."""
    for fault in load() if folder == PAGES else load(folder):
        if word.casefold() in (fault.code.casefold(), fault.name):
            return fault
    return None


def parse_page(page: bytes, path: Path) -> Fault:
    """Parse the fault that a page describes. Raises PageError, with the reason, if the page is invalid."""
    made = made_front(page)
    if made is not None:  # the page was checked when front.jsonl was written
        return _fault(made, path, page)
    try:
        fault = _fault(parse_front(page), path, page)
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
        advice=tables["answers"],
        leads_to=tuple(tables.get("leads_to", ())),
        follows_any=tables.get("follows_any", False),
        passes=tables.get("passes", False),
        looks_back=tables.get("looks_back", False),
        machine=tables.get("machine", False),
    )


def _in_body(fault: Fault, path: Path) -> Iterator[tuple[bool, str]]:
    """Yield the result of each check of the page's name and prose: True if the page is wrong, and the problem."""
    yield path.stem != f"{fault.code}-{fault.name}", "the file name must be CODE-name.md"
    yield tuple(fault.sections) != SECTIONS, f"the headings must be {SECTIONS}, in this order"
    yield not fault.title, "the page must have a title"


def _in_front(fault: Fault) -> Iterator[tuple[bool, str]]:
    """Yield the result of each check of the page's front matter: True if the page is wrong, and the problem."""
    of_wordings = [remedy for each in fault.signatures for remedy in each.remedies]
    remedies = [*fault.remedies, *of_wordings, *fault.answers]
    yield not _NAME.match(fault.name), "the name must be kebab-case"
    yield fault.severity not in SEVERITIES, f"severity must be one of {SEVERITIES}"
    yield all(r.where for r in fault.remedies), "at least one remedy on the page must have no `where`"
    yield not {system for r in remedies for system in r.where} <= SYSTEMS.keys(), f"where must be in {tuple(SYSTEMS)}"
    yield not {r.kind for r in remedies} <= KINDS.keys(), f"kind must be in {tuple(KINDS)}"
    yield not all(r.says for r in fault.answers), "an answer must have `says`"
    yield any(r.says for r in (*fault.remedies, *of_wordings)), "a remedy with `says` is one of the page's answers"
    conditions = {each for r in remedies for each in (*r.needs, *r.unless)}
    yield not all(map(_is_condition, conditions)), f"a condition cannot be read; they are {sorted(conditions)}"
    yield not all(_is_open(r.text) for r in remedies), "a remedy's text must end without a full stop"
    yield any(not set(s.sources) <= set(SOURCES) for s in fault.signatures), f"sources must be in {SOURCES}"


def _is_open(text: str) -> bool:
    return bool(text) and (text[-1] != "." or text.endswith("..."))


def _is_condition(text: str) -> bool:
    try:
        return bool(condition(text))
    except ValueError:
        return False
