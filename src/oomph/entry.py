"""The entry point of the `oomph` command. Restarts itself in isolation if variables meant for the script interfere."""

import os
import sys

from oomph.process.own_process import is_disturbed, isolated_command, isolated_environ


def command() -> int:
    """Run the `oomph` command as the main program of this process, and return its exit code."""
    if is_disturbed():
        words = isolated_command("oomph.__main__", *sys.argv[1:])
        try:
            os.execve(words[0], words, isolated_environ(os.environ))
        except OSError:
            pass  # that Python is gone: continue without isolation
    from oomph.cli import command as verbs

    return verbs()
