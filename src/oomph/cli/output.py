"""Prints the output of a verb to descriptors that may be closed or full, or have lost their reader."""

from __future__ import annotations

import json
import sys
from types import MappingProxyType
from typing import Any

from oomph.errors import OutputError
from oomph.redaction.redaction import redacted_data
from oomph.terminal.console import clear_line
from oomph.terminal.message import PREFIX, coloured, escaped, laid_out, shown
from oomph.terminal.screen import Heads, screen_of_stream
from oomph.terminal.wrapping import reflowed


def check() -> None:
    """Raise OutputError if there is no standard output. Called first, so that no work is wasted."""
    if sys.stdout is None:
        raise OutputError("standard output is closed: there is nowhere to print to")


def write(text: str, heads: Heads = MappingProxyType({})) -> None:
    """Print to standard output, at once. Raises OutputError if it fails, BrokenPipeError if the reader is gone.

    Characters that it cannot encode (a log may contain any) and terminal control characters are escaped. Lines that
    start with one of the `heads` get its colour.
    """
    _print(coloured(shown(text), screen_of_stream(sys.stdout), heads))


def width() -> int:
    """Return the number of columns that text on standard output may fill."""
    return screen_of_stream(sys.stdout).width


def width_of_told() -> int:
    """Return the width of a line that `tell` prints, in columns."""
    return screen_of_stream(sys.stderr).width


def one_event(line: str) -> str:
    """Format a line of progress for `write`: wrapped on a terminal, but one line on a pipe."""
    screen = screen_of_stream(sys.stdout)
    return reflowed(shown(line), screen.width) if screen.terminal else line


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document to standard output. Raises like `write`."""
    _print(escaped(json.dumps(redacted_data(document), indent=2) + "\n"))


def _print(text: str) -> None:
    check()
    clear_line()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # otherwise the interpreter retries at exit and prints an error
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def say(text: str) -> None:
    """Write one message from oomph to stderr."""
    tell(f"{PREFIX}{text}\n")


def tell(text: str, heads: Heads = MappingProxyType({})) -> None:
    """Print to standard error, wrapped on a terminal. Never raises, since nothing could report it."""
    clear_line()
    try:
        sys.stderr.write(laid_out(shown(text), screen_of_stream(sys.stderr), heads))
        sys.stderr.flush()
    except (AttributeError, OSError):
        sys.stderr = None  # closed or full
