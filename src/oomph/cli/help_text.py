"""Fits the help of a verb to the width of standard output."""

from __future__ import annotations

import argparse

from oomph.cli import output
from oomph.wrapping import reflowed, wrapped


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's formatter, which would break words at their hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=output.width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width).split("\n")


def fitting(text: str) -> str:
    """A help text whose lines fit."""
    return reflowed(text, output.width())
