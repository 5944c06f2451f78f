"""The front matter of the pages: TOML for people, and the same as JSON, which is read ten times as fast.

front.jsonl is written when oomph is built or installed (`hatch_build.py`). A page that was changed since is read from
its TOML.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any
from zlib import crc32

from oomph.explain.catalogue.fault import split
from oomph.files.patterns import lazy_pattern

PAGES = Path(__file__).parents[1] / "pages"
MADE = Path(__file__).with_name("front.jsonl")
_SOURCES = ("log", "exception")


def made(page: bytes) -> bytes | None:
    """The lines of JSON that `parse` gave when oomph was installed; None if the page has changed."""
    return _made().get(crc32(page))


def parse(page: bytes) -> bytes:
    """The front matter of a page as lines of JSON. Raises ValueError when it has none.

    The first line holds its tables, with `filed` in place of the signatures, as each literal's word,
    sources and line; the lines that follow hold the rest of a signature each.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # costs more than all the rest, and is only needed here
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(split(page.decode())[0])
    shared = tables.pop("shared", {})
    tables["remedies"] = _written_out(tables["remedies"], shared)
    signatures: Sequence[dict[str, Any]] = tables.pop("signatures", ())
    tables["filed"] = [each for line, table in enumerate(signatures, 1) for each in _filed(table, line)]
    rest = (_rest(table, shared) for table in signatures)
    return "\n".join(map(json.dumps, (tables, *rest))).encode()


def _filed(table: Mapping[str, Any], line: int) -> Iterator[list[Any]]:
    """One literal, or several that share everything else."""
    for literal in table.get("literals") or [table["literal"]]:
        yield [literal, "" if table.get("goes_on") else key(literal), table.get("sources", _SOURCES), line]


def _rest(table: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in table.items() if name not in ("literal", "literals", "sources", "remedies")}
    if "remedies" in table:  # as text, which costs next to nothing until it is read
        rest["advice"] = json.dumps(_written_out(table["remedies"], shared), ensure_ascii=False)
    return rest


def _written_out(remedies: Iterable[Mapping[str, Any]], shared: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The remedies, with each `use` replaced by the shared remedy it names. Raises ValueError if there is none."""
    unknown = {each["use"] for each in remedies if "use" in each} - shared.keys()
    if unknown:
        raise ValueError(f"no shared remedy is called {', '.join(sorted(unknown))}")
    return [shared[each["use"]] if "use" in each else each for each in remedies]


def document(pages: Sequence[bytes]) -> bytes:
    """The content of front.jsonl: a line of checksums, of all that follows and of each page, then the lines of each
    page."""
    parsed = [parse(page) for page in pages]
    checksums = [_checksum(parsed), *map(crc32, pages)]
    return b"\n\n".join([json.dumps(checksums).encode(), *parsed])


def write() -> None:
    """Write front.jsonl, from the pages as they are."""
    MADE.write_bytes(document([path.read_bytes() for path in sorted(PAGES.glob("*/*.md"))]))


@cache
def _made() -> Mapping[int, bytes]:
    """The lines of each page in front.jsonl, by the checksum of the page; none if it is missing or damaged."""
    try:
        checksums, *parsed = MADE.read_bytes().split(b"\n\n")
        checksum, *pages = json.loads(checksums)
    except (OSError, ValueError):
        return {}
    return dict(zip(pages, parsed, strict=True)) if checksum == _checksum(parsed) else {}


def _checksum(parsed: Iterable[bytes]) -> int:
    return reduce(lambda before, lines: crc32(lines, before), parsed, 0)


# -- filing a page ----------------------------------------------------------------------------------------------------

_WORD = lazy_pattern(r"[A-Za-z]+")
# Words of every training's log; filing a signature under one of them would make the reader stop at each line.
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
    """The word to file a literal under: always a whole word, and as rare as possible.

    A word at the edge of the literal may go on in the text ("ut of memory"), so a rare inner one is preferred; without
    one, a word at the edge counts, which must then be a whole word of the text. Raises ValueError without a word.
    """
    words: list[str] = _WORD.findall(literal)
    if not words:
        raise ValueError(f"a literal must hold a word: {literal!r}")
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
