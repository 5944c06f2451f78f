"""No sentence of the documents has more than thirty words: a longer one is two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import ROOT, documents

LIMIT = 30
ROWS_ARE_NO_SENTENCES = {"architecture.md", "measurements.md"}
"""Pages whose tables hold names and figures."""
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?:])[)\"”*]*\s+(?=[\"“(*]*(?:[A-Z0-9`“\"]|oomph\b))")


def paragraphs(text: str, with_rows: bool = True) -> Iterator[str]:
    """Yield the paragraphs, points and cells of a document, without its headings and code."""
    paragraph: list[str] = []
    for line in [*re.sub(r"^(```).*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines(), ""]:
        words = line.strip()
        if not words or words.startswith(("#", "|", "* ", "- ", "1. ")):
            yield " ".join(paragraph)
            paragraph = []
        if words.startswith("|"):
            yield from re.split(r"(?<!\\)\|", words) if with_rows else ()
        elif not words.startswith("#"):
            paragraph.append(words)


def long_sentences(text: str, with_rows: bool = True) -> list[str]:
    """Return the sentences with too many words. A piece of code counts as one word."""
    found = []
    for paragraph in paragraphs(text, with_rows):
        prose = LINK.sub(r"\1", CODE.sub("`code`", paragraph))
        found += [each for each in END.split(prose) if len(re.findall(r"\S*\w\S*", each)) > LIMIT]
    return found


@pytest.mark.parametrize("document", [*documents(), ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_no_sentence_has_more_than_thirty_words(document: Path):
    assert long_sentences(document.read_text(), document.name not in ROWS_ARE_NO_SENTENCES) == []


LONG = " ".join(["word"] * 31)


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"Short. {LONG}.",
        f"* short\n* {LONG}",
        f"| a | {LONG} |",
        f"- a\n- [{LONG}](there.md)",
        LONG.replace(" ", "\n"),
    ],
)
def test_a_long_sentence_is_found(text):
    assert len(long_sentences(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"# {LONG}",
        f"```text\n{LONG}\n```",
        f"`{LONG}`",
        f"{LONG[:60]}. {LONG[60:].capitalize()}",
        f"{LONG[:60]}. oomph {LONG[70:]}",
        f"{LONG[:60]}\n\n{LONG[60:]}",
    ],
)
def test_short_sentences_and_code_are_not_found(text):
    assert long_sentences(text) == []
