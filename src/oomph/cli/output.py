"""What a verb prints, on descriptors that may be closed, full, or read by nobody any more."""

from __future__ import annotations

import json
import sys
from typing import Any

from oomph.errors import OutputError
from oomph.redaction import redacted_data
from oomph.shown import harmless, shown


def check() -> None:
    """Raise OutputError when there is no standard output: better before the work than after it."""
    if sys.stdout is None:
        raise OutputError("standard output is closed: there is nowhere to print to")


def write(text: str) -> None:
    """Print on standard output, at once; raises OutputError when that cannot be, BrokenPipeError when nobody reads.

    Letters that it cannot show (a log may hold any) come as escapes, and so do those that steer a terminal.
    """
    _print(shown(text))


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document on standard output; raises as `write` does."""
    _print(harmless(json.dumps(redacted_data(document), indent=2) + "\n"))


def _print(text: str) -> None:
    check()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # or the interpreter tries again at exit, and complains
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def tell(text: str) -> None:
    """Print on standard error; never raises, since nothing could be said about it."""
    try:
        sys.stderr.write(shown(text))
        sys.stderr.flush()
    except (AttributeError, OSError):
        sys.stderr = None  # closed or full
