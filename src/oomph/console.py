"""How the supervisor speaks: lines on stderr that begin with `oomph:`."""

from __future__ import annotations

import os

from oomph.shown import shown_line


def say(text: str, start: str = "") -> None:
    """Write one line to stderr; never raises, since a remark is not worth a training.

    Written straight to the descriptor, as the script's own stderr is: nothing stays in a buffer that could not be
    flushed at exit, which would change the exit code.
    """
    try:
        os.write(2, f"{start}oomph: {shown_line(text)}\n".encode(errors="replace"))
    except OSError:
        pass  # nobody listens


class Voice:
    """Says lines in between the script's own words, each on a line of its own."""

    def __init__(self) -> None:
        self.at_line_start = True
        """False when the script's last words lack their newline."""

    def say(self, text: str) -> None:
        """Write one line to stderr; never raises."""
        start = "" if self.at_line_start else "\n"
        self.at_line_start = True
        say(text, start)
