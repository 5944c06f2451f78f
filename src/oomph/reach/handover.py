"""Handover: what the parent passes to the script's processes, in one environment variable. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "OOMPH_REACH"


@dataclass(frozen=True)
class End:
    """One end of a pipe of the parent: the descriptor that the script inherits, and its inode to verify it."""

    fd: int
    inode: int


@dataclass(frozen=True)
class ReachHandover:
    """The data that a process of the script needs."""

    parent: int
    """The id of the process that waits for the answer."""
    report: End
    """The end of the pipe that takes the reports, lines of JSON."""
    turns: End
    """The end of the pipe that trainings take turns from."""
    examiner: str
    """The function that examines the training: "package.module:function"."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The second argument of the examiner."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Store the handover in an environment."""
        environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def read(cls) -> ReachHandover | None:
        """The handover of this process; None if there is none, or it is damaged."""
        try:
            document = json.loads(os.environ.get(VARIABLE, "null"))
            document |= {name: End(**document[name]) for name in ("report", "turns")}
            return cls(**document)
        except (ValueError, TypeError, AttributeError, KeyError):
            return None
