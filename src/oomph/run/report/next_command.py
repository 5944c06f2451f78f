"""Builds the command that resumes a run, as a user would type it, with the environment that the script reads. Pure.

Only numbers and booleans are shown, since any other value may be a secret in a form that oomph does not recognise.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oomph.journal.events import VariablesRead
from oomph.journal.journal import Event, facts
from oomph.redaction.redaction import holds_secret

_NAMES_THE_RUN = ("--run-dir", "--resume")
_SHOWN = re.compile(r"[-+]?[\d.]{1,8}(e[-+]?\d{1,3})?|true|false|yes|no|on|off", re.IGNORECASE | re.ASCII)


class Variables(NamedTuple):
    """The environment variables that the script read and that are set."""

    shown: tuple[str, ...] = ()
    """The assignments to put before the command."""
    others: tuple[str, ...] = ()
    """The names of the variables whose values are not shown."""


def names_read(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the names of the variables that the script read and found set."""
    return tuple(sorted({name for read in facts(events, VariablesRead) for name in read.variables}))


def variables_read(events: Iterable[Event], environ: Mapping[str, str]) -> Variables:
    """Return the variables that the script read in any attempt, with their values in `environ`."""
    there = {name: environ[name] for name in names_read(events) if name in environ}
    shown = {name: value for name, value in there.items() if _SHOWN.fullmatch(value) and not holds_secret(name, value)}
    return Variables(
        tuple(f"{name}={value}" for name, value in shown.items()), tuple(name for name in there if name not in shown)
    )


def command_to_go_on(typed: Sequence[str], words: Sequence[str], run_dir: str, shown: Sequence[str] = ()) -> str:
    """Return the command that resumes the run: `NAME=value oomph run --resume=DIR`, typed options, and the script."""
    return shlex.join([*shown, "oomph", "run", f"--resume={run_dir}", *options_without_a_run(typed), *words])


def options_without_a_run(typed: Sequence[str]) -> Iterator[str]:
    """Yield all options except those that specify the run. Only `--run-dir` may have its value in the next word."""
    options = iter(typed)
    for word in options:
        if word == "--run-dir":
            next(options, None)
        elif word.partition("=")[0] not in _NAMES_THE_RUN:
            yield word
