"""Injection: the fault that `oomph rehearse` asks the script process to inject, in one environment variable.

Runs in both processes. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from oomph.files.opening import open_own

VARIABLE = "OOMPH_REHEARSAL"
_MARK = "rehearsed"


@dataclass(frozen=True)
class Injection:
    """One fault, when to inject it, and how far the rehearsal goes."""

    fault: str
    """The name of the fault, such as "kill"; empty for the undisturbed run."""
    step: int
    """The number of committed steps after which the fault is injected."""
    stop: int | None = None
    """The number of steps after which the rehearsal ends; None: when the script ends."""
    earlier: tuple[str, ...] = ()
    """The directories of earlier runs, where the script has created what is in its way now."""
    entropy: str = ""
    """The number that seeds unseeded generators in the undisturbed run, so that results are comparable."""

    def to_environment(self) -> dict[str, str]:
        """The environment variable that carries it."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Injection | None:
        """The injection for this process; None outside a rehearsal."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        try:
            if not text:
                return None
            document = json.loads(text)
            return cls(**{**document, "earlier": tuple(document.get("earlier", ()))})
        except (ValueError, TypeError, AttributeError):
            return None


def has_fired(run_dir: Path) -> bool:
    """True if the fault has been injected, in this or an earlier attempt: it is injected once."""
    return os.path.lexists(run_dir / _MARK)


def mark_fired(run_dir: Path) -> None:
    """Prevent the fault from being injected again."""
    os.close(open_own(run_dir, _MARK, os.O_WRONLY | os.O_CREAT))
