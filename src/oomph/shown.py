"""What oomph shows a person, all of it: without keys, and without what a terminal would obey."""

from __future__ import annotations

from oomph.redaction import redacted

_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
"""Marks that change the order in which the letters of a line are shown (Unicode Standard Annex 9)."""
_STEERING = {
    **{number: f"\\x{number:02x}" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(number) not in "\t\n"},
    **{number: f"\\u{number:04x}" for number in (*_REORDERING, 0x2028, 0x2029)},
}


def shown(text: str) -> str:
    """Text of any origin, to be printed: the name of a file, or a line of a log, may hold anything."""
    return harmless(redacted(text))


def shown_line(text: str) -> str:
    """The same on one line: another could begin as one of ours."""
    return shown(text).replace("\n", "\\x0a")


def harmless(text: str) -> str:
    """Without what steers a terminal; for text that holds no keys any more."""
    return text.translate(_STEERING)
