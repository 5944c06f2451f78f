"""Generates the reference of the journal: `python -m oomph.journal.docs docs/reference/journal.md`."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from oomph.journal import events
from oomph.journal.event import SCHEMA
from oomph.journal.fact import BY_NAME, Fact

_SOURCE = Path(events.__file__)
_SECTION, _MEANING = "# --", "#: "
_IN_SEVERAL = {
    "fit": "the number of the fit in the run, from 0",
    "key": "a digest of the place of the fit, and of how often it was reached",
    "reason": "the reason, in words",
    "site": 'where, such as "train.py:42"',
    "why": "the reason, as a [code with values](run-directory.md#reasons)",
}
"""The meaning of fields that have no comment of their own."""
_TYPES = {
    "int": "integer",
    "float": "number",
    "str": "text",
    "bool": "true or false",
    "Sequence[int]": "list of integers",
    "Sequence[str]": "list of texts",
    "Sequence[Mapping[str, Any]]": "list of objects",
    "Sequence[Mapping[str, str]]": "list of objects",
    "Sequence[ReasonData]": "list of reasons",
    "Mapping[str, Any]": "object",
    "Mapping[str, str]": "object",
    "ReasonData": "reason",
    "Loops": "list of lists",
}
_HEAD = f"""# The events of the journal

Generated from `src/oomph/journal/events.py` by `python -m oomph.journal.docs`.

A [run directory](run-directory.md) holds every event of the run, in `journal/<attempt>-<rank>-<role>.jsonl`: one file \
for each process, and one line of JSON for each event.

```text
{{"schema": {SCHEMA}, "event": "oom", "attempt": 1, "rank": 0, "role": "script", "sequence": 7, "time": 1796008732.9,
 "data": {{"fit": 0, "epoch": 2, "step": 14, "phase": "compute", "batch": 256, ...}}}}
```

`sequence` counts the events of the file, `time` is Unix time, and `data` has the fields of the event. An optional \
field is left out if it does not apply or was not measured.
"""


class _Field(NamedTuple):
    """The description of a field of an event in the source."""

    type: str
    meaning: str


def document() -> str:
    """Return the text of the reference, generated from the classes of the events."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    comments = _comments()
    body = ast.parse(_SOURCE.read_text(encoding="utf-8")).body
    nodes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    inherited = _fields(nodes[events.AtStep.__name__], comments)
    sections = [line for line, text in comments.items() if text.startswith(_SECTION)]
    yield _HEAD
    for kind in BY_NAME.values():  # in the order of the source
        node = nodes[kind.__name__]
        while sections and sections[0] < node.lineno:
            yield f"## {comments[sections.pop(0)].strip('# -').capitalize()}\n"
        yield from _event(kind, ast.get_docstring(node) or "", {**inherited, **_fields(node, comments)})


def _comments() -> Mapping[int, str]:
    """Return the comments in the source of the events by their lines."""
    with _SOURCE.open("rb") as opened:
        tokens = list(tokenize.tokenize(opened.readline))
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _fields(node: ast.ClassDef, comments: Mapping[int, str]) -> Mapping[str, _Field]:
    """Return the fields that a class declares, with the comments beside them."""
    declared = {ast.unparse(item.target): item for item in node.body if isinstance(item, ast.AnnAssign)}
    return {
        name: _Field(
            _TYPES[ast.unparse(item.annotation).removesuffix(" | None")],
            comments.get(item.lineno, "").removeprefix(_MEANING) or _IN_SEVERAL.get(name, ""),
        )
        for name, item in declared.items()
    }


def _event(kind: type[Fact], docstring: str, fields: Mapping[str, _Field]) -> Iterator[str]:
    yield f"### {kind.event}\n"
    yield f"{' '.join(docstring.split())}\n"
    if kind.defaults:
        yield "| field | type | meaning |"
        yield "| --- | --- | --- |"
        for name, default in kind.defaults.items():
            optional = ", optional" if default is None else ""
            yield f"| `{name}` | {fields[name].type}{optional} | {fields[name].meaning} |"
        yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
