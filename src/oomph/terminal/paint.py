"""Colours the beginnings of lines that a writer names. Pure; the text has its control characters escaped already."""

from __future__ import annotations

from collections.abc import Mapping

BOLD, RED, GREEN, YELLOW, CYAN = "1", "31", "32", "33", "36"
Heads = Mapping[str, str]
"""The beginning of a line, or a whole line → its style."""


class Marked(str):
    """A line with one or several styled words."""

    word: str
    style: str

    def __new__(cls, text: str, word: str, style: str) -> Marked:
        made = super().__new__(cls, text)
        made.word, made.style = word, style
        return made


def painted(text: str, heads: Heads) -> str:
    """The text with escape codes for colour. The longest matching head counts."""
    return "\n".join(_line(line, heads) for line in text.split("\n"))


def marked(text: str, word: str, style: str) -> str:
    """The text with the first occurrence of a word in colour."""
    before, found, after = text.partition(word)
    return f"{before}{_styled(found, style)}{after}" if found else text


def _line(line: str, heads: Heads) -> str:
    head = max((each for each in heads if _begins_with(line, each)), key=len, default="")
    if not head:
        return line
    word = head.lstrip()
    blank = head[: len(head) - len(word)]
    return f"{blank}{_styled(word, heads[head])}{line[len(head) :]}"


def _begins_with(line: str, head: str) -> bool:
    return line.startswith(head) and not line[len(head) : len(head) + 1].isalnum()


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"
