"""Removes secrets and control characters from text that oomph shows, and lays out its messages for a screen. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType

from oomph.files.patterns import lazy_pattern
from oomph.redaction.redaction import redacted
from oomph.terminal.screen import CYAN, Heads, Marked, Screen, marked, painted

_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
"""Characters that change the order in which a line is displayed (Unicode Standard Annex 9)."""
_STEERING = {
    **{number: f"\\x{number:02x}" for number in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(number) not in "\t\n"},
    **{number: f"\\u{number:04x}" for number in (*_REORDERING, 0x2028, 0x2029)},
}
PREFIX = "oomph: "
_HEAD = PREFIX.rstrip()
_FROM_SCRIPT = lazy_pattern(rb"(?:\A|(?<=\n)|\r)oomph: ([^\n]{0,4000})\n")


def shown(text: str) -> str:
    """Clean text from any source for printing, since a file name or a log line may contain anything."""
    return escaped(redacted(text))


def shown_line(text: str) -> str:
    """Clean text and keep it on one line, because a second line could pass for one of oomph's own."""
    return shown(text).replace("\n", "\\x0a")


def escaped(text: str) -> str:
    """Escape terminal control characters in text that has already been redacted."""
    return text.translate(_STEERING)


def message(text: str, screen: Screen, at_line_start: bool = True, hang: int = 0, command: str = "") -> str:
    """Return the message as it should be printed, including its newline.

    Args:
        text: the text of the message, in which a word may be marked.
        screen: the screen to lay it out for.
        at_line_start: True if the cursor is known to be at the start of a line.
        hang: how far to indent the lines after the first, counted from the end of the prefix.
        command: a command in the text that must stay on one line.
    """
    line, command = shown_line(text), shown_line(command)
    if screen.terminal:
        line = _wrapped(line, screen.width, len(PREFIX) + hang, command)
    if screen.colour and isinstance(text, Marked):
        line = marked(line, text.word, text.style)
    return start_of_line(screen, at_line_start) + coloured(f"{PREFIX}{line}\n", screen)


def start_of_line(screen: Screen, at_line_start: bool) -> str:
    """Return the characters that move the cursor to the start of a line without overwriting anything.

    The script's stdout may have left the cursor anywhere. As many blanks as the terminal has columns move it to the
    next line, unless it is already at the start of a line.
    """
    if screen.columns:
        return " " * screen.columns + "\r"
    return "" if at_line_start else "\n"


def from_script(data: bytes, screen: Screen, at_line_start: bool) -> bytes:
    """Lay out, for this screen, the oomph messages from the script's process that are part of the script's stderr.

    Messages are recognised at the start of a line and after a carriage return. Everything else is left unchanged.
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
    """Lay out clean lines for a screen, wrapped if it is a terminal, and in colour if possible."""
    if screen.terminal:
        text = "\n".join(_hung(line, screen.width) for line in text.split("\n"))
    return coloured(text, screen, heads)


def _hung(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    from oomph.terminal.wrapping import wrapped

    return wrapped(line, width, " " * (len(line) - len(line.lstrip()) + len(PREFIX)))


def _wrapped(text: str, width: int, indent: int, command: str) -> str:
    """Wrap the text that comes after the prefix."""
    if len(PREFIX) + len(text) <= width:
        return text
    from oomph.terminal.wrapping import wrapped

    return wrapped(text, width, " " * indent, " " * len(PREFIX), command)[len(PREFIX) :]


def coloured(text: str, screen: Screen, heads: Heads = MappingProxyType({})) -> str:
    """Colour clean text if the screen supports colour."""
    return painted(text, {_HEAD: CYAN, **heads}) if screen.colour else text
