"""The fields of events and their types. A field has one meaning in every event. Used in both processes.

Readers of a journal rely on these types: they are checked once, where a line becomes an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.files.conforming import conforms
from oomph.journal.event_data import weight_of

_SMALL = 2**62
_MOST_FIELDS, _LONGEST_NAME = 200, 200
_MOST_UNKNOWN = 10_000
"""Of an unknown field, in bytes of memory."""
FIELDS: Mapping[str, Any] = {
    "action": str,
    "again": bool,
    "allowed": list[str],
    "also": list[Mapping[str, str]],
    "background_seconds": float,
    "batch": int,
    "batch_size": int | None,
    "batches": int,
    "bytes": int,
    "cause": Mapping[str, Any] | None,
    "change": Mapping[str, str] | None,
    "changes": list[Mapping[str, Any]],
    "code": str,
    "command": list[str],
    "conditions": Mapping[str, Any],
    "coupling": str,
    "covered": int,
    "created": str,
    "device_limit_bytes": int | None,
    "device_peak_bytes": int | None,
    "during": str,
    "edited_fit": int | None,
    "ending": Mapping[str, Any],
    "epoch": int,
    "epochs": int,
    "equal": bool,
    "exit_code": int,
    "fault": str,
    "figures": Mapping[str, Any],
    "first_epoch": int,
    "fit": int,
    "guard": str,
    "guarded": bool,
    "held_bytes": int | None,
    "input_wait": float | None,
    "iterator": str,
    "kept": str,
    "kept_bytes": int | None,
    "key": str,
    "kind": str,
    "ledger": Mapping[str, Any],
    "limit_seconds": float,
    "line": str,
    "lines": list[str],
    "loops": list[tuple[str, int, int]],
    "lost": list[Mapping[str, Any]],
    "meant": list[Mapping[str, Any]],
    "message": str,
    "micro_batch": int | None,
    "name": str,
    "noise": float | None,
    "oom_kills": int | None,
    "over": bool,
    "path": str,
    "peak_rss_bytes": int,
    "phase": str,
    "piece": int,
    "pid": int,
    "reached": int,
    "reason": str,
    "refuses": bool,
    "remedy": str,
    "repairs": Mapping[str, Any],
    "restored": int,
    "returncode": int | None,
    "rung": int,
    "saved": int,
    "seconds": float | None,
    "severity": str,
    "signal": str,
    "site": str,
    "snapshot": Mapping[str, Any],
    "stacks": str,
    "step": int,
    "steps": int,
    "subject": str,
    "too_dear": bool,
    "type": str,
    "until": float,
    "variables": list[str],
    "wanted": int,
    "why": Mapping[str, Any] | None,
    "xla": bool,
}


def sound_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an event, without those of a wrong type.

    Unknown fields, from another version of oomph, stay if they are small: nothing here reads them.
    """
    has_too_many = len(data) > _MOST_FIELDS
    damaged = [
        name
        for name, value in data.items()
        if (has_too_many or not _is_small(name, value) if name not in FIELDS else not _is_sound(value, FIELDS[name]))
    ]
    return {name: value for name, value in data.items() if name not in {*damaged}} if damaged else data


def _is_small(name: str, value: object) -> bool:
    return len(name) <= _LONGEST_NAME and weight_of(value, _MOST_UNKNOWN) <= _MOST_UNKNOWN


def _is_sound(value: object, kind: Any) -> bool:
    """What `conforms` says; most values are plain words and small numbers, and a journal has millions of them."""
    own = type(value)
    if own is kind and (own is str or own is bool):
        return True
    if own is int and (kind is int or kind is float) and -_SMALL < value < _SMALL:  # type: ignore[operator]
        return True
    return conforms(value, kind)
