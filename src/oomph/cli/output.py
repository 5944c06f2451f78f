"""Prints the output of a verb to descriptors that may be closed or full, or have lost their reader."""

from __future__ import annotations

import json
import sys
from typing import Any

from oomph.errors import OutputError
from oomph.redaction import redacted_data
from oomph.shown import harmless, shown


def check() -> None:
    """Raise OutputError if there is no standard output. Called before the work, so that none is wasted."""
    if sys.stdout is None:
        raise OutputError("standard output is closed: there is nowhere to print to")


def write(text: str) -> None:
    """Print to standard output, at once; raises OutputError if it fails, BrokenPipeError if the reader is gone.

    Characters that it cannot encode (a log may hold any) and terminal control characters are escaped.
    """
    _print(shown(text))


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document to standard output; raises as `write` does."""
    _print(harmless(json.dumps(redacted_data(document), indent=2) + "\n"))


def _print(text: str) -> None:
    check()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # otherwise the interpreter retries at exit and prints an error
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def tell(text: str) -> None:
    """Print to standard error; never raises, since there is no place to report it."""
    try:
        sys.stderr.write(shown(text))
        sys.stderr.flush()
    except (AttributeError, OSError):
        sys.stderr = None  # closed or full
