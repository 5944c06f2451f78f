"""Defines the request to examine a training call, the reports of the script's processes, and the outcome. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from oomph.process.command import Command

FIT, ON_BATCH, LOOP = "fit", "train_on_batch", "custom loop"


@dataclass(frozen=True)
class ReachRequest:
    """A request to examine one of a script's training calls."""

    command: Command
    python: str
    """The Python that runs the script; empty for a command line that chooses its own."""
    examiner: str
    """The examiner as "package.module:function": `examine(reached, arguments) -> dict`, run in the training process."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The examiner's second argument, as JSON."""
    fit: int = 1
    """The number of the training call to examine, counted from 1; earlier ones run for real."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the script, unless the user has set them."""
    limit_seconds: float | None = None
    """The time, in seconds, after which the script is killed; None for no limit."""


class RequestedTraining(NamedTuple):
    """One of the script's training calls."""

    kind: str
    """"fit", "train_on_batch", or "custom loop"."""
    site: str
    """The file and line for people: "train.py:42"."""
    function: str = ""
    source: str = ""
    """The source text of that line."""


@dataclass(frozen=True)
class TrainingReached:
    """The training call was examined, and the script stopped there."""

    training: RequestedTraining
    document: Mapping[str, Any]
    """The examiner's result."""
    before: tuple[RequestedTraining, ...] = ()
    """The training calls that ran for real."""


@dataclass(frozen=True)
class NotReached:
    """The training call was not examined, and the script has stopped."""

    kind: str
    """The kind of failure: "no training", "failed", "unsupported", "examiner", or "limit"."""
    reason: str
    """The reason why the training call was not examined, in one sentence."""
    before: tuple[RequestedTraining, ...] = ()
    doing: str = ""
    """The examiner's activity when its process ended; empty if it was not examining."""


@dataclass(frozen=True)
class Heard:
    """Everything that the script's processes have reported so far."""

    joined: bool = False
    """True if a Python process has reported that it is waiting for a training call."""
    marks: bool = True
    """True if every process that joined could be marked, so unmarked processes are known to run without oomph."""
    trained: tuple[RequestedTraining, ...] = ()
    """The training calls that run for real."""
    examining: RequestedTraining | None = None
    pid: int = 0
    """The id of the process that examines the training call; 0 if there is none yet."""
    progress: str = ""
    """The examiner's current activity."""
    parts: tuple[str, ...] = ()
    answered: bool = False
    failed: str = ""
    """The reason why the examiner failed; empty if it did not."""
    unsupported: str = ""
    """The reason why an examination is impossible; empty if it is possible."""

    @property
    def is_over(self) -> bool:
        """True if the outcome is known."""
        return self.answered or bool(self.failed or self.unsupported)

    def answer(self) -> Mapping[str, Any] | None:
        """Return the examiner's result, or None if it cannot be read."""
        try:
            document = json.loads("".join(self.parts))
        except ValueError:
            return None
        return document if isinstance(document, dict) else None


def after(heard: Heard, line: bytes) -> Heard:
    """Return the reports with one more line added; an unreadable line changes nothing."""
    try:
        said = json.loads(line)
    except ValueError:
        return heard
    if not isinstance(said, dict):
        return heard
    if "part" in said:
        return replace(heard, parts=(*heard.parts, str(said["part"])))
    if "trains" in said:
        return replace(heard, trained=(*heard.trained, _training(said)))
    if "examines" in said:
        return replace(heard, examining=_training(said), pid=_number(said.get("pid")))
    return replace(
        heard,
        joined=heard.joined or "joined" in said,
        marks=heard.marks and said.get("marked") is not False,
        answered=heard.answered or said.get("answered") is True,
        progress=str(said.get("progress", heard.progress)),
        failed=str(said.get("failed", heard.failed)),
        unsupported=str(said.get("unsupported", heard.unsupported)),
    )


def _training(said: Mapping[str, Any]) -> RequestedTraining:
    kind = str(said.get("trains") or said.get("examines"))
    return RequestedTraining(
        kind, str(said.get("site", "?")), str(said.get("function", "")), str(said.get("source", ""))
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
