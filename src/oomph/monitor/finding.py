"""Finding: a fault that the monitor sees coming or happening. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Severity = Literal["notice", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The severities, the lowest first."""


@dataclass(frozen=True)
class Finding:
    """One finding. It is reported once for each fault, subject and kind.

    It is reported again only if it becomes more severe, or comes back after a while.
    """

    fault: str
    """The name of its fault page, such as "memory-leak"."""
    subject: str
    """The part concerned: "GPU 0", "host memory", "input pipeline", "loss"."""
    message: str
    """One sentence with the figures: "memory in use grows by 12 MiB a minute; it reaches the limit in 40 minutes"."""
    severity: Severity = "warning"
    """A notice needs no action now. Critical: the training will fail, or its results are wrong."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The figures behind the message, for programs: JSON values."""
    remedy: str = ""
    """The remedy, if it is more specific than the first one of the page."""
    kind: str = ""
    """Tells apart findings of one page and subject: a GPU may report "xid 48", and then "lost"."""
