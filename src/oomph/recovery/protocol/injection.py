"""Injection: what `oomph rehearse` tells the script's process, in one environment variable. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from oomph.run_files import open_own

VARIABLE = "OOMPH_REHEARSAL"
_MARK = "rehearsed"


@dataclass(frozen=True)
class Injection:
    """One fault, when it is to come, and how far the rehearsal goes."""

    fault: str
    """Its name, such as "kill"; empty for the undisturbed run."""
    step: int
    """It comes when this many steps are committed."""
    stop: int | None = None
    """The rehearsal is over at this many steps; None: when the script is."""
    earlier: tuple[str, ...] = ()
    """The directories of the runs before: what the script has created there stands where it creates it again."""

    def to_environment(self) -> dict[str, str]:
        """The variable that says it."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Injection | None:
        """What this process is to inject; None outside of a rehearsal."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        try:
            if not text:
                return None
            document = json.loads(text)
            return cls(**{**document, "earlier": tuple(document.get("earlier", ()))})
        except (ValueError, TypeError, AttributeError):
            return None


def has_fired(run_dir: Path) -> bool:
    """Whether the fault has come, in this attempt or an earlier one: it comes once."""
    return os.path.lexists(run_dir / _MARK)


def mark_fired(run_dir: Path) -> None:
    """Let it not come again."""
    os.close(open_own(run_dir, _MARK, os.O_WRONLY | os.O_CREAT))
