"""Changes: what one sample has changed in what is found. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.monitor.finding import Finding


@dataclass(frozen=True)
class Ended:
    """A finding that is over; fault, subject and kind are those of the finding."""

    fault: str
    subject: str
    kind: str = ""
    until: float = 0.0
    """When it was made last; Unix time."""
    seconds: float = 0.0
    """How long it was there by then, since it was told or came back."""


@dataclass(frozen=True)
class Changes:
    """What is new, what has come back, and what is over."""

    told: tuple[Finding, ...] = ()
    returned: tuple[Finding, ...] = ()
    """Findings that have come back soon after their end, which are recorded and not told again."""
    ended: tuple[Ended, ...] = ()
