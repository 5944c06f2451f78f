"""Output matches the golden files; `make golden` rewrites them so that the diff can be reviewed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from captures import COMMANDS, GOLDEN, PLACES, all_of

from oomph.explain.catalogue.catalogue import load

LABEL = re.compile(r"(?:fault |example: )?\s*")
PARTS = re.compile(r"^==== (.*)\n", re.MULTILINE)
CODES = re.compile(r"\{[\d;]*m\}")
COMMANDS_OF_REMEDIES = {
    remedy.command
    for fault in load()
    for remedy in (*fault.remedies, *(each for signature in fault.signatures for each in signature.remedies))
}


def parts(name: str) -> dict[str, str]:
    pieces = PARTS.split((GOLDEN / f"{name}.txt").read_text())
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_output_matches_the_golden_file(name: str) -> None:
    assert all_of(name) == (GOLDEN / f"{name}.txt").read_text()


def may_be_wider(line: str) -> bool:
    """Commands are meant to be pasted, so they stay on one line, as does a single word."""
    words = LABEL.sub("", line.strip(), count=1)
    return words in COMMANDS_OF_REMEDIES or words.startswith(("oomph ", "eval ")) or len(words.split()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_only_commands_and_single_words_exceed_the_line_width(name: str) -> None:
    for place, text in parts(name).items():
        width = min(int(place), 100) if place.isdigit() else 80
        for line in CODES.sub("", text).splitlines():
            assert len(line) <= width or may_be_wider(line), (place, line)


@pytest.mark.parametrize("name", COMMANDS)
def test_output_without_colour_contains_no_escape_codes(name: str) -> None:
    found = parts(name)
    assert found.keys() == PLACES.keys()
    assert not any(CODES.search(found[place]) for place in ("pipe", "no-color", "dumb"))
    assert CODES.sub("", found["80"]) == found["no-color"] == found["dumb"] == found["pipe"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith("page-")])
def test_rendered_page_contains_no_markdown_markup(name: str) -> None:
    prose = [line for line in parts(name)["80"].splitlines() if not line.startswith("    ")]
    assert not [line for line in prose if re.search(r"`|\*\*|\]\(|^#|^\|", line)]
