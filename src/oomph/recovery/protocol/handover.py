"""Handover: what the supervisor tells the script's process, in one environment variable.

The script's process may run another Python than oomph's own, so nothing but the standard library is used here.
"""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from oomph.recovery.protocol.guarding import Guarding

VARIABLE = "OOMPH_HANDOVER"


@dataclass(frozen=True)
class Handover:
    """The facts of one attempt, as the script's process needs them."""

    package: str
    """Folder of the oomph package: the script's Python loads it from there, not from its own path."""
    run_dir: str | None
    """The run directory, or None when the default one could not be written."""
    attempt: int = 1
    """1 for the first process of the script; counts on over `--resume`."""
    guarding: Guarding = field(default_factory=Guarding)
    lock_fd: int | None = None
    """An inherited descriptor that holds the lock of the run directory for as long as the script lives."""
    beat_fd: int | None = None
    """The end of a pipe that heartbeats are written to, and in `beat_inode` how to tell that it is still that."""
    beat_inode: int | None = None
    stacks_fd: int | None = None
    """A file in memory for Python stacks, and in `stacks_inode` how to tell that it is still that."""
    stacks_inode: int | None = None
    stacks_signal: int | None = None
    """On which the stacks are to be written."""
    most_samples: int | None = None
    """Take no more samples at once than this; None: no such limit."""
    entropy: str = ""
    """What stands for the system's entropy in every attempt of the run (`entropy.py`); empty: the system's own."""
    changes: tuple[tuple[str, str], ...] = ()
    """(name, value) of what is to be different from a plain start: "no-xla", "prefetch", "precision", "skip-batch"."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Put the handover into an environment."""
        environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def read(cls, environ: MutableMapping[str, str] | None = None) -> Handover | None:
        """The handover of this process, or None when it was not started by `oomph run`."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            return None
        try:
            document = json.loads(text)
            document["changes"] = tuple((str(name), str(value)) for name, value in document.get("changes", ()))
            document["guarding"] = Guarding(**document.get("guarding", {}))
            return cls(**document)
        except (ValueError, TypeError, AttributeError):
            return None

    def changed(self, name: str) -> list[str]:
        """The values of the changes of this name, oldest first; empty when there is none."""
        return [value for known, value in self.changes if known == name]

    @property
    def path(self) -> Path | None:
        """The run directory as a path."""
        return None if self.run_dir is None else Path(self.run_dir)
