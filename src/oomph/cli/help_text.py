"""Fits the help of a verb to the width of standard output."""

from __future__ import annotations

import argparse

from oomph.cli import output
from oomph.files.patterns import lazy_pattern
from oomph.terminal.wrapping import reflowed, wrapped

_COMMAND = lazy_pattern(r"(?P<whole> *(?:examples?: )?(?P<words>(?:oomph|python|eval)(?: \S+)+)) *")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's formatter, which would break words at their hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=output.width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width).split("\n")


def fitting(text: str) -> str:
    """A help text wrapped to the width; the commands of its examples stay whole, to be pasted."""
    width = output.width()
    before, mark, after = text.partition("\nexample")
    examples, blank, after = after.partition("\n\n")
    lines = (_fitting(line, width) for line in f"{mark}{examples}".split("\n"))
    return reflowed(before, width) + "\n".join(lines) + reflowed(blank + after, width)


def _fitting(line: str, width: int) -> str:
    command = _COMMAND.match(line)
    if command is None or len(line) <= width:
        return reflowed(line, width)
    column, start = command.end(), command.start("words")
    return wrapped(line, width, " " * (column if column <= width * 3 // 4 else start + 2), command=command["whole"])
