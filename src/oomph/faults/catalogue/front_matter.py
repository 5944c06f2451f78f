"""The front matter of the pages: TOML for people, and the same as JSON, which is read ten times as fast.

front.json is written when oomph is built or installed (`hatch_build.py`). A page that was changed since
is read from its TOML.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

PAGES = Path(__file__).parents[1] / "pages"
MADE = Path(__file__).with_name("front.json")
_FENCE = "+++"


def split(page: str) -> tuple[str, str]:
    """The front matter of a page, and what comes after it. Raises ValueError when there is none."""
    _, words, body = page.split(_FENCE, 2)
    return words, body


def read(front: str) -> Mapping[str, Any]:
    """The tables of a page's front matter. Raises ValueError when it is no TOML."""
    known = _made().get(_key(front))
    return parse(front) if known is None else known


def parse(front: str) -> Mapping[str, Any]:
    """The same, from the TOML in any case, with its shared remedies written out."""
    if sys.version_info >= (3, 11):
        import tomllib  # costs more than all the rest, and is only needed here
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(front)
    shared = tables.pop("shared", {})
    tables["remedies"] = _written_out(tables["remedies"], shared)
    for table in tables.get("signatures", ()):
        if "remedies" in table:  # as text, which costs next to nothing until it is read
            table["advice"] = json.dumps(_written_out(table.pop("remedies"), shared), ensure_ascii=False)
    return tables


def _written_out(remedies: Iterable[Mapping[str, Any]], shared: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The remedies, each `use` replaced by the shared one that it names. Raises ValueError if there is none."""
    unknown = {each["use"] for each in remedies if "use" in each} - shared.keys()
    if unknown:
        raise ValueError(f"no shared remedy is called {', '.join(sorted(unknown))}")
    return [shared[each["use"]] if "use" in each else each for each in remedies]


def is_known(front: str) -> bool:
    """Whether front.json has it, and so whether it was checked when that was written."""
    return _key(front) in _made()


def document(pages: Iterable[str]) -> str:
    """front.json: a line for each page, by the checksum of its front matter."""
    fronts = (split(page)[0] for page in pages)
    lines = (f'"{_key(front)}": {json.dumps(parse(front), ensure_ascii=False)}' for front in fronts)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write() -> None:
    """Write front.json, from the pages as they are."""
    pages = (path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*/*.md")))
    MADE.write_text(document(pages), encoding="utf-8")


def _key(front: str) -> str:
    return f"{crc32(front.encode()):08x}"


@cache
def _made() -> Mapping[str, Any]:
    try:
        made = json.loads(MADE.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing or damaged: the pages say the same
        return {}
    return made if isinstance(made, dict) else {}
