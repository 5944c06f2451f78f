"""Computes how many of a resumed fit's repeated steps were compared, and how many the comparisons cover. Pure.

Each step depends on all earlier ones, so a comparison covers every repeated step up to that point. Nothing is known
about the steps after the last comparison. On a GPU, not every step's result is read, and a killed process may not have
recorded everything that it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from oomph.journal.events import RepeatCompared
from oomph.protocol.reason_table import compared_part
from oomph.protocol.reasons import Reason, because
from oomph.terminal.amounts import counted

_ENOUGH = 0.75
"""The share of the repeated steps that the comparisons must cover for a resume to count as proven."""


class Range(NamedTuple):
    """The minimum and maximum of a number."""

    least: float = 0
    most: float = inf


ANY = Range()


class Coverage(NamedTuple):
    """The number of repeated steps that are known to have produced the same results."""

    compared: int = 0
    """The number of steps whose results were compared."""
    epochs: int = 0
    """The number of times that the whole state was compared, at the end of an epoch or of a fit."""
    covered: int = 0
    """The number of repeated steps up to the last comparison."""
    repeated: int = 0

    def __str__(self) -> str:
        if self.is_complete:
            return counted(self.compared, "repeated step")
        return compared_part(self.compared, self.repeated, self.epochs)

    @property
    def is_any(self) -> bool:
        """True if anything was compared."""
        return self.compared > 0 or self.epochs > 0

    @property
    def is_complete(self) -> bool:
        """True if every repeated step was compared."""
        return self.compared >= self.repeated

    @property
    def is_enough(self) -> bool:
        """True if the comparisons cover enough steps to support a claim about the result."""
        return self.is_any and self.covered >= _ENOUGH * self.repeated

    def reasons(self) -> tuple[Reason, ...]:
        """Return the reason to state with a label, or nothing if all repeated steps were compared or none were."""
        if self.is_complete or not self.is_any:
            return ()
        return (because("partly-compared", compared=self.compared, repeated=self.repeated, epochs=self.epochs),)


def coverage_of(compared: Iterable[RepeatCompared], repeated: Range = ANY) -> Coverage:
    """Return the highest coverage among the comparisons of one fit in one attempt.

    Args:
        compared: the comparisons.
        repeated: the minimum and maximum number of steps that the attempt repeated, according to its journal.
    """
    known = [_coverage(found) for found in compared if found.equal]
    most = max(known, key=lambda one: one.covered, default=Coverage())
    return most._replace(repeated=int(min(max(most.repeated, repeated.least), repeated.most)))


def _coverage(found: RepeatCompared) -> Coverage:
    counts = (found.steps, found.epochs, found.covered or 0, found.repeated or 0)
    return Coverage(*(max(0, each) for each in counts))
