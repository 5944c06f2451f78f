"""Prints a verb's output to descriptors that may be closed or full, or whose reader may be gone."""

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
    """Raise OutputError if standard output is closed. Called first, to avoid wasting any work."""
    if sys.stdout is None:
        raise OutputError("standard output is closed: there is nowhere to print to")


def write(text: str, heads: Heads = MappingProxyType({})) -> None:
    """Print to standard output and flush. Raises OutputError if that fails, BrokenPipeError if the reader is gone.

    Terminal control characters, and characters that cannot be encoded (a log may contain anything), are escaped. The
    beginning of a line is coloured if it is one of the `heads`.
    """
    _print(coloured(shown(text), screen_of_stream(sys.stdout), heads))


def width() -> int:
    """Return the number of columns that text on standard output may fill."""
    return screen_of_stream(sys.stdout).width


def line_width() -> int:
    """Return the number of columns that one line may fill, without a limit on a pipe, which a program reads."""
    screen = screen_of_stream(sys.stdout)
    return screen.width if screen.terminal else sys.maxsize


def width_of_told() -> int:
    """Return the width, in columns, of lines printed by `tell`."""
    return screen_of_stream(sys.stderr).width


def one_event(line: str) -> str:
    """Format a progress line for `write`: wrapped on a terminal, but a single line on a pipe."""
    screen = screen_of_stream(sys.stdout)
    return reflowed(shown(line), screen.width) if screen.terminal else line


def write_json(document: dict[str, Any]) -> None:
    """Print a JSON document to standard output. Raises the same errors as `write`."""
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
    """Write a message from oomph to stderr."""
    tell(f"{PREFIX}{text}\n")


def tell(text: str, heads: Heads = MappingProxyType({})) -> None:
    """Print to standard error, wrapped on a terminal. Never raises, since there is nowhere to report an error."""
    clear_line()
    try:
        sys.stderr.write(laid_out(shown(text), screen_of_stream(sys.stderr), heads))
        sys.stderr.flush()
    except (AttributeError, OSError):
        sys.stderr = None  # closed or full
