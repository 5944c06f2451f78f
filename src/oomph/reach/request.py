"""The request to examine one training of a script, the reports of its processes, and the outcome. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from oomph.process.command import Command

FIT, ON_BATCH, LOOP = "fit", "train_on_batch", "custom loop"


@dataclass(frozen=True)
class ReachRequest:
    """A request to examine one training of a script."""

    command: Command
    python: str
    """The Python of the script; empty for a command line that chooses its own."""
    examiner: str
    """The examiner, in the training's process, "package.module:function": `examine(reached, arguments) -> dict`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The second argument of the examiner, as JSON."""
    fit: int = 1
    """The number of the training to examine, counted from 1; earlier trainings run for real."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the script, unless the user has set them."""
    limit_seconds: float | None = None
    """The time, in seconds, after which the script is ended; None for no limit."""


class RequestedTraining(NamedTuple):
    """One training of the script."""

    kind: str
    """"fit", "train_on_batch", or "custom loop"."""
    site: str
    """The file and line for people: "train.py:42"."""
    function: str = ""
    source: str = ""
    """The source text of that line."""


@dataclass(frozen=True)
class TrainingReached:
    """The training was examined, and the script has ended there."""

    training: RequestedTraining
    document: Mapping[str, Any]
    """The examiner's result."""
    before: tuple[RequestedTraining, ...] = ()
    """The trainings that ran for real."""


@dataclass(frozen=True)
class NotReached:
    """The training was not examined, and the script has ended."""

    kind: str
    """The kind of failure: "no training", "failed", "unsupported", "examiner", or "limit"."""
    reason: str
    """The reason the training was not examined, in one sentence."""
    before: tuple[RequestedTraining, ...] = ()
    doing: str = ""
    """What the examiner was doing when its process ended; empty if it was not examining."""


@dataclass(frozen=True)
class Heard:
    """Everything that the script's processes have reported so far."""

    joined: bool = False
    """True if a Python process has reported that it waits for a training."""
    marks: bool = True
    """True if every process that joined could be marked, so unmarked processes are known to be without oomph."""
    trained: tuple[RequestedTraining, ...] = ()
    """The trainings that run for real."""
    examining: RequestedTraining | None = None
    pid: int = 0
    """The id of the process that examines the training; 0 if there is none yet."""
    progress: str = ""
    """The current activity of the examiner."""
    parts: tuple[str, ...] = ()
    answered: bool = False
    failed: str = ""
    """The reason the examiner failed; empty if it has not."""
    unsupported: str = ""
    """The reason there can be no examination; empty if there can."""

    @property
    def is_over(self) -> bool:
        """True if the outcome is known."""
        return self.answered or bool(self.failed or self.unsupported)

    def answer(self) -> Mapping[str, Any] | None:
        """Return the examiner's result; None if it cannot be read."""
        try:
            document = json.loads("".join(self.parts))
        except ValueError:
            return None
        return document if isinstance(document, dict) else None


def after(heard: Heard, line: bytes) -> Heard:
    """Return the reports with one more line; an unreadable line changes nothing."""
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
