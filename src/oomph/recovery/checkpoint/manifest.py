"""Validates the manifest of a checkpoint, which may come from anybody. Pure; script process and supervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oomph.conforming import conforms

_MOST = 1 << 53
"""Every JSON implementation holds integers up to this exactly; no training counts that far."""
_SCALARS = (bool, int, float, str, type(None))
Check = Callable[[Any], bool]


def position_trouble(position: Any) -> str | None:
    """What is wrong with a checkpoint's position, in words; None if nothing is."""
    if not isinstance(position, Mapping):
        return "its position is not an object"
    wrong = [name for name, value in position.items() if not _is_count(value)]
    return f"its position has {wrong[0]}={position[wrong[0]]!r}"[:200] if wrong else None


def meta_trouble(meta: Any, steps: int) -> str | None:
    """What is wrong with a checkpoint's metadata, in words; None if nothing is.

    Args:
        steps: steps of the run when it was taken.
    """
    if not isinstance(meta, Mapping):
        return "its metadata is not an object"
    wrong = [name for name, check in _CHECKS.items() if name in meta and not check(meta[name])]
    if wrong:
        return f"its {wrong[0]} is invalid: {meta[wrong[0]]!r}"[:200]
    if meta.get("taken", 0) > _lenient(steps):
        return f"it claims {meta['taken']} batches taken in {steps} steps"
    return None


def tensors_trouble(entries: Any, file_bytes: int) -> str | None:
    """What is wrong with a checkpoint's tensor table, in words; None if nothing is.

    Args:
        file_bytes: the size of the tensor file.
    """
    if not conforms(entries, list[Mapping[str, Any]]):
        return "its tensors are not a table"
    for entry in entries:
        if set(entry) != {*_ENTRY} or not all(conforms(entry[name], kind) for name, kind in _ENTRY.items()):
            return f"a tensor is invalid: {entry!r}"[:200]
        if min(entry["offset"], entry["nbytes"], *entry["shape"]) < 0 or entry["offset"] + entry["nbytes"] > file_bytes:
            return f"a tensor is outside its file: {entry['name']!r}"[:200]
    return None


_ENTRY = {"name": str, "dtype": str, "shape": list[int], "offset": int, "nbytes": int}


def _lenient(count: int) -> int:
    return 10 * count + 1000


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _mapping_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _is_callback(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("class")) and _mapping_of(_is_scalar)(value.get("state"))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, _SCALARS)


def _is_history(value: Any) -> bool:
    fields = value if isinstance(value, dict) else {}
    series = _list_of(lambda each: isinstance(each, dict))
    return _list_of(_is_whole)(fields.get("epoch")) and series(fields.get("history"))


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


_CHECKS: dict[str, Check] = {
    "site": _is_text,
    "fingerprint": _is_text,
    "guard": _is_text,
    "optimizers": _list_of(_list_of(_is_whole)),
    "random": lambda value: isinstance(value, dict),
    "history": _is_history,
    "callbacks": _list_of(_is_callback),
    "objects": lambda value: isinstance(value, dict),
    "hidden": _list_of(_is_text),
    "taken": _is_count,
    "iterators_made": _is_count,
    "iterators_used": _list_of(_is_count),
    "validated_after": _list_of(_is_pair),
    "logs": _mapping_of(_is_number),
    "steps_seen": _is_count,
    "loop_steps": _is_count,
    "made_by": _mapping_of(lambda each: isinstance(each, dict)),
    "learning_rate": _optional(_is_number),
    "learning_rates": lambda value: isinstance(value, (dict, list)),
    "seconds": _is_number,
    "taken_at": _is_number,
    "fit_seconds": _is_number,
    "opened": _list_of(lambda each: isinstance(each, dict)),
    "files": _list_of(lambda each: isinstance(each, dict)),
    "draws": _list_of(_is_count),
}
"""Field name → whether a value is valid; fields without a check are accepted."""
