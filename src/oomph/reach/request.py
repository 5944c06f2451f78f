"""The request to examine a script, and its outcome. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oomph.process.command import Command


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
    """The number of the training to examine, from 1; the trainings before it run for real."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the script, where the user has not set them."""
    limit_seconds: float | None = None
    """End the script after this many seconds; None for no limit."""


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
    """The examiner's action when its process ended; empty if it was not examining."""
