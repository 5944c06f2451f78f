"""Handover: what the supervisor passes to the script process, in one environment variable.

Runs in both. The script process may run another Python than oomph's own, so this uses only the standard library.
"""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from oomph.protocol.guarding import Guarding

VARIABLE = "OOMPH_HANDOVER"


@dataclass(frozen=True)
class Handover:
    """The data about one attempt that the script process needs."""

    package: str
    """The folder of the oomph package; the script's Python loads it from there, not from sys.path."""
    run_dir: str | None
    """The run directory; None when the default one could not be written."""
    run_dir_is: tuple[int, int] | None = None
    """The device and inode of the run directory. Another folder of the same name is not used."""
    attempt: int = 1
    """The number of the attempt: 1 for the first process of the script; `--resume` continues the count."""
    guarding: Guarding = field(default_factory=Guarding)
    lock_fd: int | None = None
    """The inherited descriptor that holds the lock of the run directory while the script lives."""
    beat_fd: int | None = None
    """The descriptor of the pipe that heartbeats are written to; `beat_inode` shows whether it is still that pipe."""
    beat_inode: int | None = None
    stacks_fd: int | None = None
    """The descriptor of a file in memory for Python stacks; `stacks_inode` shows whether it is still that file."""
    stacks_inode: int | None = None
    stacks_signal: int | None = None
    """The signal that requests the stacks."""
    most_samples: int | None = None
    """The most samples to take at once; None: no limit."""
    entropy: str = ""
    """Replaces the system's entropy in every attempt of the run (`entropy.py`), unless empty."""
    changes: tuple[tuple[str, str], ...] = ()
    """(name, value) of each change from a plain start: "no-xla", "prefetch", "precision", "skip-batch"."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Put the handover into an environment."""
        environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def read(cls, environ: MutableMapping[str, str] | None = None) -> Handover | None:
        """The handover of this process; None if `oomph run` did not start it."""
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            return None
        try:
            document = json.loads(text)
            document["changes"] = tuple((str(name), str(value)) for name, value in document.get("changes", ()))
            known = document.get("run_dir_is")
            document["run_dir_is"] = None if known is None else (int(known[0]), int(known[1]))
            document["guarding"] = Guarding(**document.get("guarding", {}))
            return cls(**document)
        except (ValueError, TypeError, AttributeError, IndexError, KeyError):
            return None

    def changed(self, name: str) -> list[str]:
        """The values of the changes of this name, oldest first."""
        return [value for known, value in self.changes if known == name]

    @property
    def path(self) -> Path | None:
        """The run directory as a path."""
        return None if self.run_dir is None else Path(self.run_dir)
