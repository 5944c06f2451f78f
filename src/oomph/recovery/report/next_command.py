"""The command that resumes a run, as a user would type it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

_NAMES_THE_RUN = ("--run-dir", "--resume")


def command_to_go_on(typed: Sequence[str], words: Sequence[str], run_dir: str) -> str:
    """`oomph run --resume=DIR`, the options as typed, and the script with its arguments."""
    return shlex.join(["oomph", "run", f"--resume={run_dir}", *options_without_a_run(typed), *words])


def options_without_a_run(typed: Sequence[str]) -> Iterator[str]:
    """All options but those that name the run; only `--run-dir` may have its value in the next word."""
    options = iter(typed)
    for word in options:
        if word == "--run-dir":
            next(options, None)
        elif word.partition("=")[0] not in _NAMES_THE_RUN:
            yield word
