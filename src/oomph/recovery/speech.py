"""How the supervisor speaks: lines on stderr that begin with `oomph:`. Standard library only."""

from __future__ import annotations

import sys


def say(text: str, start: str = "") -> None:
    """Write one line to stderr; never raises, since a remark is not worth a training."""
    try:
        sys.stderr.write(f"{start}oomph: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # nobody listens
