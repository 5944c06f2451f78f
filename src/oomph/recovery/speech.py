"""How the supervisor speaks: lines on stderr that begin with `oomph:`."""

from __future__ import annotations

import os


def say(text: str, start: str = "") -> None:
    """Write one line to stderr; never raises, since a remark is not worth a training.

    Written straight to the descriptor, as the script's own stderr is: nothing stays in a buffer that could not be
    flushed at exit, which would change the exit code.
    """
    try:
        os.write(2, f"{start}oomph: {text}\n".encode(errors="replace"))
    except OSError:
        pass  # nobody listens
