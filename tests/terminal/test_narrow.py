"""At 40 columns, the narrowest terminal that oomph knows, what is not a command fits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomph.faults.catalogue.catalogue import load

sys.path.insert(0, str(Path(__file__).parent))
from captures import COMMANDS, capture

NAMES = ("help", "unknown-verb", "page-check", "page-exception", "run", "run-full", "run-decisions", "runs")
COMMANDS_OF_REMEDIES = {remedy.command for fault in load() for remedy in fault.remedies if remedy.command}


def prose(text: str) -> Iterator[str]:
    """The lines that hold more than a command or a word."""
    for line in text.splitlines():
        words = line.removeprefix("  fault").strip()
        if len(words.split()) > 1 and words not in COMMANDS_OF_REMEDIES and not words.startswith("oomph "):
            yield line


@pytest.mark.parametrize("name", NAMES)
def test_all_prose_fits(name: str) -> None:
    text = capture(COMMANDS[name], 40, NO_COLOR="1")
    assert [line for line in prose(text) if len(line) > 40] == []
