"""Cleans the text that oomph shows of keys and control characters, and lays out its messages for a screen. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType

from oomph.files.patterns import lazy_pattern
from oomph.redaction.redaction import redacted
from oomph.terminal.screen import CYAN, Heads, Marked, Screen, marked, painted

_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
"""Marks that change the display order of the characters of a line (Unicode Standard Annex 9)."""
_STEERING = {
    **{number: f"\\x{number:02x}" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(number) not in "\t\n"},
    **{number: f"\\u{number:04x}" for number in (*_REORDERING, 0x2028, 0x2029)},
}
PREFIX = "oomph: "
_HEAD = PREFIX.rstrip()
_FROM_SCRIPT = lazy_pattern(rb"(?:\A|(?<=\n)|\r)oomph: ([^\n]{0,4000})\n")


def shown(text: str) -> str:
    """Clean text of any origin for printing: a file name or a log line may contain anything."""
    return escaped(redacted(text))


def shown_line(text: str) -> str:
    """Clean text on one line: a second line could look like oomph's own."""
    return shown(text).replace("\n", "\\x0a")


def escaped(text: str) -> str:
    """Escape the terminal control characters in text that is already redacted."""
    return text.translate(_STEERING)


def message(text: str, screen: Screen, at_line_start: bool = True, hang: int = 0, command: str = "") -> str:
    """Return the message with its newline.

    Args:
        text: the text of the message; a word in it may be marked.
        screen: where to show it.
        at_line_start: True if the cursor is known to be there.
        hang: the indentation of the lines after the first, counted from the end of the prefix.
        command: a command in the text, which stays on one line.
    """
    line, command = shown_line(text), shown_line(command)
    if screen.terminal:
        line = _wrapped(line, screen.width, len(PREFIX) + hang, command)
    if screen.colour and isinstance(text, Marked):
        line = marked(line, text.word, text.style)
    return start_of_line(screen, at_line_start) + coloured(f"{PREFIX}{line}\n", screen)


def start_of_line(screen: Screen, at_line_start: bool) -> str:
    """Return the characters that move to the start of a line and keep what is on the screen.

    The script's stdout may have left the cursor anywhere. As many blanks as the terminal is wide lead to the next line,
    unless they begin at the start of a line.
    """
    if screen.columns:
        return " " * screen.columns + "\r"
    return "" if at_line_start else "\n"


def from_script(data: bytes, screen: Screen, at_line_start: bool) -> bytes:
    """Format oomph's messages in the script's stderr, sent from the script's process, for this screen.

    They are recognised at the start of a line and after a carriage return. Everything else stays as it is.
    """
    if not (screen.terminal or screen.colour):
        return data

    def shown(found: re.Match[bytes]) -> bytes:
        before = data[found.start() - 1 : found.start()]  # one byte: a longer slice would be copied for each message
        starts = before == b"\n" if before else at_line_start
        if not starts and not found[0].startswith(b"\r"):
            return found[0]
        text = found[1].decode("utf-8", "surrogateescape")
        return message(text, screen, starts).encode("utf-8", "surrogateescape")

    return _FROM_SCRIPT.sub(shown, data)


def laid_out(text: str, screen: Screen, heads: Heads = MappingProxyType({})) -> str:
    """Lay out clean lines for a screen: wrapped on a terminal, and coloured if possible."""
    if screen.terminal:
        text = "\n".join(_hung(line, screen.width) for line in text.split("\n"))
    return coloured(text, screen, heads)


def _hung(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    from oomph.terminal.wrapping import wrapped

    return wrapped(line, width, " " * (len(line) - len(line.lstrip()) + len(PREFIX)))


def _wrapped(text: str, width: int, indent: int, command: str) -> str:
    """Wrap the text that follows the prefix."""
    if len(PREFIX) + len(text) <= width:
        return text
    from oomph.terminal.wrapping import wrapped

    return wrapped(text, width, " " * indent, " " * len(PREFIX), command)[len(PREFIX) :]


def coloured(text: str, screen: Screen, heads: Heads = MappingProxyType({})) -> str:
    """Colour clean text if the screen supports colour."""
    return painted(text, {_HEAD: CYAN, **heads}) if screen.colour else text
