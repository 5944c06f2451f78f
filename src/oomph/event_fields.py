"""The facts that events are about, and the type of each. A field means the same in every event that has it.

Whoever reads a journal relies on these types: they are looked at once, where a line becomes an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.conforming import conforms

FIELDS: Mapping[str, Any] = {
    "action": str,
    "allowed": list[str],
    "also": list[Mapping[str, str]],
    "background_seconds": float,
    "batch": int,
    "batches": int,
    "bytes": int,
    "cause": str,
    "change": Mapping[str, str] | None,
    "changes": list[str],
    "code": str,
    "command": list[str],
    "conditions": Mapping[str, Any],
    "created": str,
    "device_peak_bytes": int | None,
    "during": str,
    "edited_fit": int | None,
    "ending": Mapping[str, Any],
    "epoch": int,
    "epochs": int,
    "equal": bool,
    "exit_code": int,
    "fault": str,
    "fit": int,
    "guard": str,
    "guarded": bool,
    "held_bytes": int | None,
    "iterator": str,
    "key": str,
    "kind": str,
    "ledger": Mapping[str, Any],
    "limit_seconds": float,
    "line": str,
    "lines": list[str],
    "loops": list[tuple[str, int, int]],
    "lost": list[str],
    "meant": list[str],
    "message": str,
    "micro_batch": int | None,
    "name": str,
    "noise": float | None,
    "oom_kills": int | None,
    "path": str,
    "peak_rss_bytes": int,
    "phase": str,
    "pid": int,
    "reason": str,
    "refuses": bool,
    "repairs": Mapping[str, Any],
    "restored": int,
    "returncode": int | None,
    "rung": int,
    "saved": int,
    "seconds": float | None,
    "signal": str,
    "site": str,
    "snapshot": Mapping[str, Any],
    "stacks": str,
    "step": int,
    "steps": int,
    "too_dear": bool,
    "type": str,
    "xla": bool,
}


def sound_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of an event without those that hold something else than they should, as if they had not been written.

    A field of another oomph stays: nobody here reads it.
    """
    return {name: value for name, value in data.items() if name not in FIELDS or conforms(value, FIELDS[name])}
