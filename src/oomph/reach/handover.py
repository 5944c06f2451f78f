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
    """The process that waits for the answer."""
    report: End
    """The end for lines of JSON."""
    turns: End
    """The end that trainings take turns from."""
    examiner: str
    """The examiner of the training: "package.module:function"."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its second argument."""

    def write(self, environ: MutableMapping[str, str]) -> None:
        """Put the handover into an environment."""
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
