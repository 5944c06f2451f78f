"""Writes the reference of the command line: `python -m oomph.cli.docs docs/reference/command-line.md`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.cli import COMMANDS, parser_of


def document() -> str:
    """Return the reference of the command line, generated from the parsers of the verbs."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# The command line\n"
    yield "Generated from `src/oomph/cli` by `python -m oomph.cli.docs`. `oomph VERB --help` prints the same.\n"
    yield "| verb | purpose |"
    yield "| --- | --- |"
    for verb, (_, summary) in COMMANDS.items():
        yield f"| [{verb}](#oomph-{verb}) | {summary} |"
    yield "\nWhat each exit code means is on [a page of its own](exit-codes.md)."
    for verb in COMMANDS:
        yield from _verb(verb)
    yield ""


def _verb(verb: str) -> Iterator[str]:
    parser = parser_of(verb)
    yield f"\n## oomph {verb}\n"
    purpose = COMMANDS[verb][1]
    yield f"{purpose[0].upper()}{purpose[1:]}.\n"
    yield "```text"
    yield from (line.strip() for line in parser.format_usage().removeprefix("usage:").splitlines())
    yield "```\n"
    yield "| option | |"
    yield "| --- | --- |"
    yield from (_row(action) for action in parser._actions if action.help is not argparse.SUPPRESS)


def _row(action: argparse.Action) -> str:
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    if action.nargs == 0:
        value = ""
    elif action.nargs == "?":
        value = f"[{value}]"
    names = ", ".join(action.option_strings) or action.metavar or action.dest
    named = f"{names} {value}" if value and action.option_strings else str(names)
    return f"| `{_cell(named)}` | {_cell(action.help or '').replace('<', '&lt;')} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
