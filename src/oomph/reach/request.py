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
    """Its second argument, as JSON."""
    fit: int = 1
    """The training's number; those before it run for real."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the script, where the user has not set them."""
    limit_seconds: float | None = None
    """End the script after this time; None: never."""


class RequestedTraining(NamedTuple):
    """One training of the script."""

    kind: str
    """"fit", "train_on_batch", or "custom loop"."""
    site: str
    """The place, for people: "train.py:42"."""
    function: str = ""
    source: str = ""
    """The text of the line."""


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
    """"no training", "failed", "unsupported", "examiner", or "limit"."""
    reason: str
    """One sentence."""
    before: tuple[RequestedTraining, ...] = ()
    doing: str = ""
    """What the examiner was doing when its process ended; empty if it was not examining."""
