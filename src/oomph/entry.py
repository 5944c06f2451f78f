"""The `oomph` command begins here. If variables for the script's Python disturb it, it starts once more, isolated."""

import os
import sys

from oomph.process.own_process import is_disturbed, isolated_command, isolated_environ


def command() -> int:
    """The `oomph` command, as a process of its own; returns the exit code."""
    if is_disturbed():
        words = isolated_command("oomph.__main__", *sys.argv[1:])
        try:
            os.execve(words[0], words, isolated_environ(os.environ))
        except OSError:
            pass  # that Python is gone: go on as it is
    from oomph.cli import command as verbs

    return verbs()
