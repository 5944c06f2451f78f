"""Finds the worker that hangs, since the others wait for it in a collective and make no progress either. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oomph.run.hang.limits import Hang


class Standing(NamedTuple):
    """The place where one worker stands while none of them makes progress."""

    rank: int
    hang: Hang
    """Its silence, and the line at which it stands."""
    steps: int = 0
    """The number of steps that it has committed."""
    is_stopped: bool = False
    """True if its process is stopped, as by SIGSTOP."""
    waits: bool | None = None
    """True if it waits inside TensorFlow, as a worker does for the others; None if that is unknown."""


def culprit(standings: Sequence[Standing]) -> Standing:
    """Return the worker for which the others wait."""
    return min(standings, key=_likelihood)


def _likelihood(standing: Standing) -> tuple[bool, int, int, float]:
    waits = {False: 0, None: 1, True: 2}[standing.waits]
    return not standing.is_stopped, standing.steps, waits, -standing.hang.seconds
