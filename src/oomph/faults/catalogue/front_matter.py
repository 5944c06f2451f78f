"""The front matter of the pages: TOML for people, and the same as JSON, which is read ten times as fast.

front.jsonl is written when oomph is built or installed (`hatch_build.py`). A page that was changed since is read from
its TOML.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from oomph.faults.catalogue.fault import split
from oomph.faults.catalogue.filing import key

PAGES = Path(__file__).parents[1] / "pages"
MADE = Path(__file__).with_name("front.jsonl")
_SOURCES = ("log", "exception")


class FrontMatter(NamedTuple):
    """The front matter of a page."""

    tables: Mapping[str, Any]
    """All but the signatures; in their place `filed`, which holds the literal, the word and the sources of each."""
    signatures: Sequence[str]
    """Each signature as JSON: most are never read."""


def made(page: str) -> FrontMatter | None:
    """What front.jsonl holds of a page, which was checked when that was written; None of a page as it was not then."""
    return _made().get(crc32(page.encode()))


def parse(page: str) -> FrontMatter:
    """The same from the TOML, with shared remedies and several literals written out. ValueError: there is none."""
    if sys.version_info >= (3, 11):
        import tomllib  # costs more than all the rest, and is only needed here
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(split(page)[0])
    shared = tables.pop("shared", {})
    tables["remedies"] = _written_out(tables["remedies"], shared)
    signatures = [each for table in tables.pop("signatures", ()) for each in _signatures(table, shared)]
    tables["filed"] = [_filed(signature) for signature in signatures]
    return FrontMatter(tables, [json.dumps(signature) for signature in signatures])


def _signatures(table: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """One signature, or as many as the table has `literals`, which then share everything else."""
    rest = {name: value for name, value in table.items() if name not in ("literal", "literals", "remedies")}
    if "remedies" in table:  # as text, which costs next to nothing until it is read
        rest["advice"] = json.dumps(_written_out(table["remedies"], shared), ensure_ascii=False)
    for literal in table.get("literals") or [table["literal"]]:
        yield {"literal": literal, **rest}


def _filed(signature: Mapping[str, Any]) -> list[Any]:
    word = "" if signature.get("goes_on") else key(signature["literal"])
    return [signature["literal"], word, signature.get("sources", _SOURCES)]


def _written_out(remedies: Iterable[Mapping[str, Any]], shared: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The remedies, each `use` replaced by the shared one that it names. Raises ValueError if there is none."""
    unknown = {each["use"] for each in remedies if "use" in each} - shared.keys()
    if unknown:
        raise ValueError(f"no shared remedy is called {', '.join(sorted(unknown))}")
    return [shared[each["use"]] if "use" in each else each for each in remedies]


def document(pages: Iterable[str]) -> str:
    """front.jsonl: a checksum of the rest; for each page its checksum and tables, then its signatures, one a line."""
    lines: list[str] = []
    for page in pages:
        tables, signatures = parse(page)
        lines += [json.dumps([crc32(page.encode()), tables]), *signatures]
    rest = "\n".join(lines)
    return f"{crc32(rest.encode())}\n{rest}"


def write() -> None:
    """Write front.jsonl, from the pages as they are."""
    pages = (path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*/*.md")))
    MADE.write_text(document(pages), encoding="ascii")


@cache
def _made() -> Mapping[int, FrontMatter]:
    """What front.jsonl holds, by the checksum of the page."""
    try:
        checksum, _, rest = MADE.read_bytes().partition(b"\n")
    except OSError:
        return {}  # missing: the pages say the same
    if checksum != b"%d" % crc32(rest):
        return {}
    lines = iter(rest.decode("ascii").split("\n"))
    pages = (json.loads(line) for line in lines)
    return {page: FrontMatter(tables, tuple(islice(lines, len(tables["filed"])))) for page, tables in pages}
