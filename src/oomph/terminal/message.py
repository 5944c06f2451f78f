"""A message of oomph for display: one line on a pipe; wrapped, coloured, at a line's start on a terminal. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType

from oomph.files.patterns import lazy_pattern
from oomph.terminal.paint import CYAN, Heads, Marked, marked, painted
from oomph.terminal.screen import Screen
from oomph.terminal.shown import shown_line

PREFIX = "oomph: "
_HEAD = PREFIX.rstrip()
_FROM_SCRIPT = lazy_pattern(rb"(?:\A|(?<=\n)|\r)oomph: ([^\n]{0,4000})\n")


def message(text: str, screen: Screen, at_line_start: bool = True, hang: int = 0, command: str = "") -> str:
    """The message with its newline.

    Args:
        text: what to say; a word in it may be marked.
        screen: where.
        at_line_start: whether the cursor is known to be there.
        hang: where the lines after the first begin, counted from the end of the prefix.
        command: a command in the text, which stays on one line.
    """
    line, command = shown_line(text), shown_line(command)
    if screen.terminal:
        line = _wrapped(line, screen.width, len(PREFIX) + hang, command)
    if screen.colour and isinstance(text, Marked):
        line = marked(line, text.word, text.style)
    return start_of_line(screen, at_line_start) + coloured(f"{PREFIX}{line}\n", screen)


def start_of_line(screen: Screen, at_line_start: bool) -> str:
    """The characters that move to the start of a line and keep what is on the screen.

    The script's stdout may have left the cursor anywhere. As many blanks as the terminal is wide reach the next line,
    unless they begin at the start of one.
    """
    if screen.columns:
        return " " * screen.columns + "\r"
    return "" if at_line_start else "\n"


def from_script(data: bytes, screen: Screen, at_line_start: bool) -> bytes:
    """The script's stderr, with oomph's messages from the script's process formatted for this screen.

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
    """Clean lines laid out for a screen: wrapped on a terminal, and coloured if possible."""
    if screen.terminal:
        text = "\n".join(_hung(line, screen.width) for line in text.split("\n"))
    return coloured(text, screen, heads)


def _hung(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    from oomph.terminal.wrapping import wrapped

    return wrapped(line, width, " " * (len(line) - len(line.lstrip()) + len(PREFIX)))


def _wrapped(text: str, width: int, indent: int, command: str) -> str:
    """The text that follows the prefix, wrapped."""
    if len(PREFIX) + len(text) <= width:
        return text
    from oomph.terminal.wrapping import wrapped

    return wrapped(text, width, " " * indent, " " * len(PREFIX), command)[len(PREFIX) :]


def coloured(text: str, screen: Screen, heads: Heads = MappingProxyType({})) -> str:
    """Clean text, coloured if the screen can."""
    return painted(text, {_HEAD: CYAN, **heads}) if screen.colour else text
