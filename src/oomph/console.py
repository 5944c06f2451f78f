"""Prints lines to stderr that begin with `oomph:`. Used in both processes."""

from __future__ import annotations

import os

from oomph.shown import shown_line


def say(text: str, start: str = "") -> None:
    """Write one line to stderr; never raises, since no message is worth losing a training.

    Writes directly to the descriptor, like the script's own stderr: a buffer that cannot be flushed at exit would
    change the exit code.
    """
    try:
        os.write(2, f"{start}oomph: {shown_line(text)}\n".encode(errors="replace"))
    except OSError:
        pass  # nobody reads stderr


class Voice:
    """Prints lines between the script's own output, each on its own line."""

    def __init__(self) -> None:
        self.at_line_start = True
        """False when the script's last output lacks its newline."""

    def say(self, text: str) -> None:
        """Write one line to stderr; never raises."""
        start = "" if self.at_line_start else "\n"
        self.at_line_start = True
        say(text, start)
