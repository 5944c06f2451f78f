"""Looks up the advice of `oomph explain` for a log, for tests of remedies."""

from __future__ import annotations

from oomph.explain.diagnose import diagnose_log
from oomph.explain.matching.named_fault import Diagnosis


def first(log: str) -> Diagnosis:
    """Return the first diagnosis."""
    (best, *_) = diagnose_log(log.encode())
    return best


def remedies(log: str) -> list[str]:
    """Return its remedies, each with its command."""
    return [f"{remedy.text} {remedy.command}" for remedy in first(log).remedies]


def first_remedy(log: str) -> str:
    """Return the remedy that is printed first."""
    return remedies(log)[0]
