"""Python stacks of the script's process, written by faulthandler when the supervisor asks, and at a crash.

They go to a file in memory that the supervisor has opened, so that the script's stderr is what it would have been. The
script's own use of faulthandler comes first: what it has switched on before or switches on later stays as it is.
"""

from __future__ import annotations

import faulthandler


def write_stacks_to(fd: int, signum: int) -> None:
    """From now on the stacks of all threads go to `fd` on that signal, and on a crash."""
    try:
        faulthandler.register(signum, file=fd, all_threads=True, chain=False)
        if not faulthandler.is_enabled():
            faulthandler.enable(file=fd, all_threads=True)
    except (OSError, RuntimeError, ValueError):
        pass  # a Python without it: a hang is still seen, its line is not named
