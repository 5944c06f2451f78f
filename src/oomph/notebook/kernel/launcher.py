"""Reads and builds a kernel's command line, for both the supervisor and the kernel. Standard library only.

VS Code rewrites the arguments of Python kernels: it drops `-f {connection_file}` and appends the ports, the key and
`--f=FILE`. All arguments are therefore passed on unchanged, and the launcher comes first if it is named.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence

SUPERVISOR, PROCESS = "oomph.notebook.kernel", "oomph.notebook.kernel.process"
IPYKERNEL = "ipykernel_launcher"
VARIABLE = "OOMPH_KERNEL"
"""The environment variable in which the supervisor passes the kernel what it needs, as JSON."""


def launcher_of(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the module that starts the kernel, and its arguments."""
    if len(words) > 1 and words[0] == "-m":
        return words[1], tuple(words[2:])
    return IPYKERNEL, tuple(words)


def python_options(argv: Sequence[str]) -> tuple[str, ...]:
    """Return Python's own options in a command line that runs a module, such as `-Xfrozen_modules=off`."""
    return tuple(argv[1 : argv.index("-m")]) if "-m" in argv else ()


def kernel_argv(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command line of the kernel's process. `words` are the arguments of the supervisor."""
    return (sys.executable, *python_options(sys.orig_argv), "-m", PROCESS, *words)


def plain_argv(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that starts the kernel without oomph."""
    module, arguments = launcher_of(words)
    return (sys.executable, *python_options(sys.orig_argv), "-m", module, *arguments)


def leave_working_directory(path: MutableSequence[str]) -> None:
    """Remove the working directory, which `-m` puts first, from sys.path, as ipykernel does.

    A file beside the notebook must not shadow a module of the standard library.
    """
    if path and path[0] in ("", os.getcwd()):
        del path[0]
