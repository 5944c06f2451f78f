"""Renders results as small HTML panels for notebooks, and cuts long lists to a screen. Pure.

All text is redacted and escaped here. A panel runs no scripts and loads nothing. It inherits the page's text and
background colours, so that it is readable in light and dark themes; its few own colours are those of JupyterLab's
theme, or mid-tones elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from html import escape
from typing import TypeVar

from oomph.terminal.message import shown

SCREEN_LINES = 40
"""The number of lines that a screen shows without scrolling."""
MOST_ROWS = 12
"""The maximum number of rows or items of one list in a panel."""
_LONGEST = 600
"""The maximum number of characters of one text in a panel."""

T = TypeVar("T")


class Tone(Enum):
    """The meaning of a panel, as the colour of its edge."""

    NEWS = "var(--jp-info-color1, #2a78d6)"
    GOOD = "var(--jp-success-color1, #2e8b57)"
    WARNING = "var(--jp-warn-color1, #c77d0a)"
    BAD = "var(--jp-error-color1, #d04437)"


def panel(title: str, parts: Iterable[str], tone: Tone = Tone.NEWS) -> str:
    """Return a panel with a title and parts from the functions below."""
    style = f"border-left: 3px solid {tone.value}; padding: 0 0 0 .8em; margin: .2em 0; overflow-wrap: anywhere"
    head = f"<div><b>{safe(title)}</b></div>"
    return f'<div class="oomph" style="{style}">{head}{"".join(parts)}</div>'


def paragraph(text: str, quiet: bool = False) -> str:
    """Return a paragraph, in fainter text if it is `quiet`."""
    style = ' style="opacity: .75"' if quiet else ""
    return f"<div{style}>{safe(text)}</div>"


def code(text: str) -> str:
    """Return a line of code or of a log, in a fixed-width font."""
    return f'<div style="padding-left: 1em"><code style="white-space: pre-wrap">{safe(text)}</code></div>'


def items(texts: Sequence[str], numbered: bool = False) -> str:
    """Return a list of texts, or an empty string if there are none."""
    if not texts:
        return ""
    kept, more = cut(texts, MOST_ROWS)
    lines = "".join(f"<li>{safe(text)}</li>" for text in kept)
    tag = "ol" if numbered else "ul"
    return f'<{tag} style="margin: 0; padding-left: 1.6em">{lines}</{tag}>{_left_out(more)}'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row has the headings, if there are any."""
    kept, more = cut(rows, MOST_ROWS)
    cell = 'style="text-align: left; padding: 0 1.5em 0 0"'
    heads = "".join(f"<th {cell}>{safe(each)}</th>" for each in head)
    lines = ("".join(f"<td {cell}>{safe(each)}</td>" for each in row) for row in kept)
    body = "".join(f"<tr>{line}</tr>" for line in ([heads] if heads else []) + list(lines))
    return f"<table>{body}</table>{_left_out(more)}"


def safe(text: str) -> str:
    """Redact, shorten and escape text from any source."""
    clean = shown(text)
    return escape(clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 1]}…")


def screenful(paragraphs: Iterable[str]) -> str:
    """Join wrapped paragraphs, and replace the lines that would not fit on a screen with their number."""
    kept, more = cut("\n".join(paragraphs).split("\n"), SCREEN_LINES)
    return "\n".join([*kept, *([f"... and {more} more lines"] if more else [])]).rstrip("\n")


def cut(things: Sequence[T], most: int) -> tuple[Sequence[T], int]:
    """Return the things to show, and the number of those left out, whose mention counts towards `most`."""
    if len(things) <= most:
        return things, 0
    return things[: most - 1], len(things) - most + 1


def _left_out(more: int) -> str:
    return paragraph(f"... and {more} more", quiet=True) if more else ""
