"""The advice of `oomph explain` for a log, for the tests of remedies."""

from __future__ import annotations

from oomph.explain.diagnose import diagnose_log
from oomph.explain.matching.named_fault import Diagnosis


def first(log: str) -> Diagnosis:
    """The first diagnosis."""
    (best, *_) = diagnose_log(log.encode())
    return best


def remedies(log: str) -> list[str]:
    """Its remedies, each with its command."""
    return [f"{remedy.text} {remedy.command}" for remedy in first(log).remedies]


def first_remedy(log: str) -> str:
    """The remedy that is printed first."""
    return remedies(log)[0]
