"""Defines a job for a scheduler, and quotes words for the languages of schedulers' files. Pure."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from oomph.errors import UsageError

MOST_RESTARTS = 20
"""The number of times that a scheduler starts a job again. oomph itself gives up earlier if there is no progress."""
SAVE_SECONDS = 120
"""The time from the signal that announces the end to the end."""


@dataclass(frozen=True)
class BatchJob:
    """A training on several workers, each of which is one `oomph run`."""

    name: str
    words: tuple[str, ...]
    """The script and its arguments, `-m module ...` or `-- command ...`."""
    workers: int
    gpus: int = 0
    """The number of GPUs of each worker."""
    options: tuple[str, ...] = ()
    """More options of `oomph run`."""
    time: str = ""
    """The time limit in one of Slurm's forms, or "" for the scheduler's own."""
    image: str = ""
    """The image of the containers, for Kubernetes."""
    claim: str = ""
    """The persistent volume claim that all pods mount, for Kubernetes."""

    def command(self, *more: str) -> list[str]:
        """Return the arguments of `oomph` in each worker, with more options."""
        return ["run", "--engine=env", "--resume", *more, *self.options, *self.words]


def in_bash(word: str) -> str:
    """Quote a word for bash. What cannot be printed is written as bytes, so that a file shows all that it holds."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_in_quotes, word))}'"


def _in_quotes(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def in_yaml(text: str) -> str:
    """Quote a text for YAML. Raises UsageError if it is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!a} is not UTF-8, and a manifest for Kubernetes can hold nothing else") from error
    return f'"{"".join(map(_in_double_quotes, text))}"'


def _in_double_quotes(letter: str) -> str:
    if letter in '\\"':
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) <= 0xFFFF else f"\\U{ord(letter):08x}"
