"""A checkpoint's manifest: its metadata, and how it is validated, since a checkpoint may come from anyone.

The script process writes and reads the manifest. A field that is None was not saved: loops and fits save different
fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from oomph.files.conforming import conforms

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Meta:
    """The `meta` part of a manifest, which `manifest.py` validates before it is read."""

    # -- the fit or loop that it belongs to
    site: str | None = None
    """The file and line where the script calls the fit or loop."""
    key: str | None = None
    """The key of the fit or loop: where the script calls it, and how many calls were made there before."""
    outline: str | None = None
    """A digest of the code that calls the fit or loop, ignoring constants."""
    cell: str | None = None
    """The id of the notebook cell that calls the fit or loop, or "" if unknown; None in a script."""
    fingerprint: str | None = None
    """A digest of the structure of the model and its optimizer."""
    made_by: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The facts about the script, its arguments and its environment, as digests and text."""
    guard: str | None = None
    """The guarantee given for the steps, such as "exact"."""
    finished: bool = False
    """True for the end state of a fit."""
    # -- state other than tensors
    random: dict[str, Any] | None = None
    """The states of the random generators."""
    optimizers: list[list[int]] = field(default_factory=list)
    """The indices of the weights that each optimizer was built for."""
    learning_rate: float | None = None
    learning_rates: dict[str, float] = field(default_factory=dict)
    """The learning rate of each optimizer in a loop, by the path to the optimizer."""
    history: dict[str, Any] | None = None
    callbacks: list[dict[str, Any]] | None = None
    """The class and counters of each callback."""
    objects: dict[str, Any] | None = None
    """The changes to the script's own objects."""
    own: Any = None
    """The state that a loop's objects returned from their own `get_state()` or `state_dict()`."""
    made: Any = None
    """The information from which a new process recreates the variables that a loop created."""
    trained: Any = None
    """The layers that are trainable, and the settings that callbacks changed."""
    stop_training: bool | None = None
    draws: list[int] = field(default_factory=list)
    """The number of random operations that keep a count, for each guarded step in a loop."""
    hidden: list[dict[str, Any]] = field(default_factory=list)
    """The reasons why parts of the state cannot be saved, as JSON."""
    logs: dict[str, float] = field(default_factory=dict)
    """The logs of the last step."""
    # -- the position in the data
    taken: int | None = None
    """The number of batches read from the current iterator."""
    iterators_made: int | None = None
    iterators_used: list[int] | None = None
    """The numbers of the iterators that batches were read from, counted from 1."""
    iterator_of_dataset: bool | None = None
    """True if the dataset's shuffle seeds are saved (only in end states)."""
    moment: dict[str, Any] | None = None
    """The state that the current iterator started from, if its batches may have to be replayed."""
    told: dict[str, Any] | None = None
    """The position that the current iterator reported."""
    steps_seen: int | None = None
    loop_steps: int | None = None
    validated: bool | None = None
    """True if validation had started."""
    validated_after: list[list[int]] = field(default_factory=list)
    """The validation iterators: the number of training iterators created before each, and 1 if it was used."""
    # -- files
    opened: list[dict[str, Any]] = field(default_factory=list)
    """The files that the fit writes, and their lengths."""
    files: list[dict[str, Any]] = field(default_factory=list)
    """The files that a finished fit wrote in full."""
    # -- cost and proof
    seconds: float | None = None
    """The run's training time so far, in seconds."""
    fit_seconds: float | None = None
    taken_at: float | None = None
    """The time at which the checkpoint was taken, in seconds since 1970."""
    fingerprint_of_state: Any = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Meta:
        """Read the metadata from a manifest, ignoring unknown fields."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known and value is not None})

    def as_data(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def said(value: T | None) -> T:
    """Return the value of a required field. Raises KeyError if it is None."""
    if value is None:
        raise KeyError("the checkpoint lacks this field")
    return value


_MOST = 1 << 53
"""Integers must be below this limit, which is exact in every JSON implementation and beyond the counts of any run."""
_TOLD = {"class", "bytes", "state"}
_SCALARS = (bool, int, float, str, type(None))
Check = Callable[[Any], bool]


def position_trouble(position: Any) -> str | None:
    """Describe the first defect in a checkpoint's position, or return None if the position is valid."""
    if not isinstance(position, Mapping):
        return "its position is not an object"
    wrong = [name for name, value in position.items() if not _is_count(value)]
    return f"its position has {wrong[0]}={position[wrong[0]]!r}"[:200] if wrong else None


def meta_trouble(meta: Any, steps: int) -> str | None:
    """Describe the first defect in a checkpoint's metadata, or return None if the metadata is valid.

    Args:
        steps: the run's step count when the checkpoint was taken.
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
    """Describe the first defect in a checkpoint's tensor table, or return None if the table is valid."""
    if not conforms(entries, list[Mapping[str, Any]]):
        return "its tensors are not a table"
    for entry in entries:
        if set(entry) != {*_ENTRY} or not all(conforms(entry[name], kind) for name, kind in _ENTRY.items()):
            return f"a tensor is invalid: {entry!r}"[:200]
        if min(entry["offset"], entry["nbytes"], *entry["shape"]) < 0 or entry["offset"] + entry["nbytes"] > file_bytes:
            return f"a tensor is outside its file: {entry['name']!r}"[:200]
        size, least = math.prod(entry["shape"]), _ITEM_BYTES.get(entry["dtype"], 1)
        if not least * size <= entry["nbytes"] <= _ITEM_BYTES.get(entry["dtype"], _LARGEST_ITEM) * size:
            return f"a tensor's size does not match its bytes: {entry['name']!r}"[:200]
    of_objects, copies = (_bytes_of(entries, under) for under in (_OF_OBJECTS, _COPIES))
    if of_objects > _MOST_OF_OBJECTS:
        return f"it claims {of_objects} bytes of the script's objects and files"
    variables = sum(entry["nbytes"] for entry in entries) - of_objects - copies
    if copies > _SMALL_COPIES + _MOST_COPIES * variables:
        return f"it claims {copies} bytes of callbacks and layers for {variables} bytes of variables"
    names = [entry["name"] for entry in entries]
    return "two tensors share a name" if len(set(names)) < len(names) else None


def bytes_read_at_once(entries: Sequence[Mapping[str, Any]]) -> int:
    """Return the memory, in bytes, needed for arrays that are read as a whole, not into existing variables."""
    sizes: list[int] = [entry["nbytes"] for entry in entries if entry["name"].startswith((*_OF_OBJECTS, *_COPIES))]
    return sum(sizes) + max(sizes, default=0)


def _bytes_of(entries: Sequence[Mapping[str, Any]], under: tuple[str, ...]) -> int:
    return sum(entry["nbytes"] for entry in entries if entry["name"].startswith(under))


def missing_tensor(meta: Mapping[str, Any], names: Container[str]) -> str | None:
    """Return the first tensor that the metadata refers to but the table lacks, or None if no tensor is missing.

    Args:
        meta: metadata that `meta_trouble` found valid.
    """
    opened = (number for number, each in enumerate(meta.get("opened") or ()) if each["copied"])
    copied = (each.get("copy") for each in meta.get("files") or ())
    needed = [f"file/{number}" for number in (*opened, *copied) if number is not None]
    for under, saved in (("object/", meta.get("objects")), ("data/", (meta.get("moment") or {}).get("objects"))):
        named, apart = (saved or {}).get("arrays"), (saved or {}).get("apart")
        count = (len(named) if isinstance(named, list) else 0) + (apart if type(apart) is int and apart > 0 else 0)
        needed += [f"{under}{number}" for number in range(min(count, _MOST_ARRAYS))]
    return next((name for name in needed if name not in names), None)


_MOST_ARRAYS = 10**6
_LARGEST_ITEM = 16
"""The largest item size, in bytes, of the dtypes that only TensorFlow supports."""
_OF_OBJECTS, _MOST_OF_OBJECTS = ("object/", "data/", "file/", "own/"), 8 << 30
"""The name prefixes of objects' tensors, and the limit on their total size in bytes, twice the most ever saved."""
_COPIES, _MOST_COPIES, _SMALL_COPIES = ("callback", "layer/", "history/", "draws/", "validation/"), 16, 1 << 30
"""The name prefixes of other state, and the limits on its size: a multiple of the variables' bytes, plus a constant."""
_ENTRY = {"name": str, "dtype": str, "shape": list[int], "offset": int, "nbytes": int}


_ITEM_BYTES = {
    f"{kind}{bits}": bits // 8
    for kind, sizes in {
        "int": (8, 16, 32, 64),
        "uint": (8, 16, 32, 64),
        "float": (16, 32, 64),
        "complex": (64, 128),
    }.items()
    for bits in sizes
} | {"bool": 1, "bfloat16": 2}


def _lenient(count: int) -> int:
    return 10 * count + 1000


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_reason(value: Any) -> bool:
    """True if a value consists of a reason's code and values; its text is never taken from the file."""
    return (
        isinstance(value, dict)
        and _is_text(value.get("code"))
        and all(isinstance(each, (str, int, float)) for each in value.values())
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _mapping_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _is_callback(value: Any) -> bool:
    return isinstance(value, dict) and _is_text(value.get("class")) and _mapping_of(_is_counter)(value.get("state"))


def _is_counter(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float))


def _is_plain(value: Any) -> bool:
    return isinstance(value, _SCALARS) or (isinstance(value, list) and all(map(_is_plain, value)))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _record(**checks: Check) -> Check:
    """Build a check for a JSON object with these fields; other fields are ignored."""
    return lambda value: (
        isinstance(value, dict) and all(name in value and check(value[name]) for name, check in checks.items())
    )


def _is_made_anew(value: Any) -> bool:
    """True if a value describes a new object that can be recreated, by its kind and content."""
    return isinstance(value, list) and len(value) == 2 and _is_text(value[0])


def _is_python_random(value: Any) -> bool:
    """True if a value is a state of Python's Mersenne Twister."""
    if not (isinstance(value, list) and len(value) == 3 and isinstance(value[1], list)):
        return False
    return value[0] == 3 and len(value[1]) == 625 and all(map(_is_count, value[1])) and value[1][-1] <= 624


def _is_numpy_random(value: Any) -> bool:
    state = value.get("state") if isinstance(value, dict) else None
    if not isinstance(state, dict) or not _list_of(_is_count)(state.get("key")) or len(state["key"]) != 624:
        return False
    return _is_count(state.get("pos")) and state["pos"] <= 624 and max(state["key"]) < 1 << 32


def _is_random(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return all(_RANDOM.get(name, _is_plain)(each) for name, each in value.items())


def _is_build_config(value: Any) -> bool:
    """True if a value is a layer's build config: nested shapes and strings, with no dimension of 2**31 or more."""
    if isinstance(value, dict):
        return all(map(_is_build_config, value.values()))
    if isinstance(value, list):
        return all(map(_is_build_config, value))
    return value is None or isinstance(value, (bool, str, float)) or (type(value) is int and abs(value) < 1 << 31)


def _is_history(value: Any) -> bool:
    fields = value if isinstance(value, dict) else {}
    series = _list_of(lambda each: isinstance(each, dict))
    return _list_of(_is_whole)(fields.get("epoch")) and series(fields.get("history"))


def _is_told(value: Any) -> bool:
    fields = value if isinstance(value, dict) else {}
    return _is_text(fields.get("class")) and isinstance(fields.get("bytes"), bool) and {*fields} == _TOLD


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


_RANDOM: dict[str, Check] = {
    "python": _is_python_random,
    "numpy": _is_numpy_random,
    "tensorflow_eager": _is_python_random,
    "tensorflow_seed": _optional(lambda value: _is_whole(value) and abs(value) < 1 << 63),
    "tensorflow_unseeded": _is_count,
}
"""Maps each global generator's name to the check for its state; the states of all others are lists of numbers."""
_OBJECTS = _record(
    changed=lambda value: isinstance(value, dict), new=_mapping_of(_is_made_anew), lost=_list_of(_is_reason)
)
_CHECKS: dict[str, Check] = {
    "site": _is_text,
    "key": _is_text,
    "outline": _is_text,
    "cell": _is_text,
    "fingerprint": _is_text,
    "guard": _is_text,
    "finished": lambda value: type(value) is bool,
    "optimizers": _list_of(_list_of(_is_whole)),
    "random": _is_random,
    "history": _is_history,
    "callbacks": _list_of(_is_callback),
    "objects": lambda value: _OBJECTS(value) and _list_of(_is_text)(value.get("arrays", [])),
    "moment": _optional(_record(random=_is_random, objects=_optional(_OBJECTS))),
    "made": _optional(
        _record(
            variables=_list_of(_is_text),
            layers=_mapping_of(_list_of(_is_build_config)),
            optimizers=_mapping_of(_list_of(_is_text)),
        )
    ),
    "own": _optional(lambda value: isinstance(value, dict)),
    "trained": _optional(
        _record(layers=_list_of(_is_flag), settings=_mapping_of(_mapping_of(_is_plain)), made_anew=_is_flag)
    ),
    "stop_training": _optional(_is_flag),
    "hidden": _list_of(_is_reason),
    "taken": _is_count,
    "iterators_made": _is_count,
    "iterators_used": _list_of(_is_count),
    "validated_after": _list_of(_is_pair),
    "logs": _mapping_of(_is_number),
    "told": _is_told,
    "steps_seen": _is_count,
    "loop_steps": _is_count,
    "made_by": _mapping_of(lambda each: isinstance(each, dict)),
    "learning_rate": _optional(_is_number),
    "learning_rates": lambda value: isinstance(value, (dict, list)),
    "seconds": _is_number,
    "taken_at": _is_number,
    "fit_seconds": _is_number,
    "opened": _list_of(_record(path=_is_text, stamp=_list_of(_is_whole), copied=_is_flag)),
    "files": _list_of(_record(path=_is_text, size=_is_count, digest=_is_text)),
    "draws": _list_of(_is_count),
}
"""Maps each field's name to the check for its value; fields without a check are accepted."""
