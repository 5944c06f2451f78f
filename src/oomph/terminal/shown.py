"""Cleans all text that oomph shows: removes keys, escapes terminal control characters. Used in both processes."""

from __future__ import annotations

from oomph.redaction.redaction import redacted

_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
"""Marks that change the display order of the characters of a line (Unicode Standard Annex 9)."""
_STEERING = {
    **{number: f"\\x{number:02x}" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(number) not in "\t\n"},
    **{number: f"\\u{number:04x}" for number in (*_REORDERING, 0x2028, 0x2029)},
}


def shown(text: str) -> str:
    """Clean text of any origin for printing: a file name or a line of a log may hold anything."""
    return escaped(redacted(text))


def shown_line(text: str) -> str:
    """Clean text on one line: a second line could look like oomph's own."""
    return shown(text).replace("\n", "\\x0a")


def escaped(text: str) -> str:
    """The text with terminal control characters escaped; for text that is already redacted."""
    return text.translate(_STEERING)
