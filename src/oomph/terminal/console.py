"""Prints lines to stderr that begin with `oomph:`. Used in both processes."""

from __future__ import annotations

import os

from oomph.terminal import ticking
from oomph.terminal.message import message
from oomph.terminal.screen import screen_of
from oomph.terminal.shared_output import SharedOutput


def say(text: str, at_line_start: bool = True, hang: int = 0, command: str = "") -> None:
    """Write one message to stderr; never raises, since no message is worth losing a training.

    Writes directly to the descriptor, like the script's own stderr: a buffer that cannot be flushed at exit would
    change the exit code. The arguments are those of `message`.
    """
    ticking.clear()
    try:
        os.write(2, message(text, screen_of(2), at_line_start, hang, command).encode(errors="replace"))
    except OSError:
        pass  # nobody reads stderr


class Voice:
    """Prints messages between the script's own output, each on its own line."""

    def __init__(self) -> None:
        self.at_line_start = True
        """False when the script's last output to stderr lacks its newline."""
        self.shared = SharedOutput()

    def say(self, text: str, hang: int = 0, command: str = "") -> None:
        """Write one message to stderr; never raises."""
        at_line_start, self.at_line_start = self.at_line_start and self.shared.is_at_line_start(), True
        say(text, at_line_start, hang, command)
        self.shared.end_line()
