"""The metadata of a checkpoint: everything besides its position and its tensors.

The script process writes and reads it. A field that is None was not saved: loops save other fields than fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Meta:
    """The `meta` of a manifest (`manifest.py` checks it before it is read)."""

    # -- which training it belongs to
    site: str | None = None
    """File and line of the call of the fit, or of the loop."""
    key: str | None = None
    """The key of the fit or loop: its place in the script and its occurrence there."""
    outline: str | None = None
    """The place of the fit or loop in the script, without constants."""
    fingerprint: str | None = None
    """Digest of the structure of the model and its optimizer."""
    made_by: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The script, its arguments and its environment, as digests and words."""
    guard: str | None = None
    """The guarantee given for its steps, such as "exact"."""
    # -- state besides tensors
    random: dict[str, Any] | None = None
    """The states of the random generators."""
    optimizers: list[list[int]] = field(default_factory=list)
    """For each optimizer, the indices of the weights that it was built for."""
    learning_rate: float | None = None
    learning_rates: dict[str, float] = field(default_factory=dict)
    """The learning rate of each optimizer of a loop, by the path to the optimizer."""
    history: dict[str, Any] | None = None
    callbacks: list[dict[str, Any]] | None = None
    """The class and the counters of each callback."""
    objects: dict[str, Any] | None = None
    """Changes to the script's own objects."""
    own: Any = None
    """The state that a loop's objects returned from their own `get_state()` or `state_dict()`."""
    made: Any = None
    """The data from which a new process creates the variables that a loop has created."""
    trained: Any = None
    """The trainable layers, and other settings of `compile`."""
    stop_training: bool | None = None
    draws: list[int] = field(default_factory=list)
    """For each guarded step of a loop, the number of random operations that keep a count."""
    hidden: list[dict[str, Any]] = field(default_factory=list)
    """The reasons some state cannot be saved, as JSON."""
    logs: dict[str, float] = field(default_factory=dict)
    """The logs of the last step."""
    # -- the position in the data
    taken: int | None = None
    """Batches taken from the current iterator."""
    iterators_made: int | None = None
    iterators_used: list[int] | None = None
    """The numbers of the iterators that batches were taken from, counted from 1."""
    iterator_of_dataset: bool | None = None
    """True if the seeds of the dataset's own shuffling are saved (end states)."""
    moment: dict[str, Any] | None = None
    """The state that the current iterator started from, if its batches may have to be taken again."""
    told: dict[str, Any] | None = None
    """The position reported by the current iterator."""
    steps_seen: int | None = None
    loop_steps: int | None = None
    validated: bool | None = None
    """True if a validation had begun."""
    validated_after: list[list[int]] = field(default_factory=list)
    """Per validation iterator, the training iterators before it, and whether it was used."""
    # -- files
    opened: list[dict[str, Any]] = field(default_factory=list)
    """Files that the fit writes, and their lengths."""
    files: list[dict[str, Any]] = field(default_factory=list)
    """Files that a finished fit wrote as a whole."""
    # -- its cost and its proof
    seconds: float | None = None
    """Seconds of training in the run so far."""
    fit_seconds: float | None = None
    taken_at: float | None = None
    """The time of the checkpoint, in seconds since 1970."""
    fingerprint_of_state: Any = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Meta:
        """The metadata in a manifest; unknown fields are ignored."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known and value is not None})

    def as_data(self) -> dict[str, Any]:
        """The fields that are set, for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def said(value: T | None) -> T:
    """Return a required field; raises KeyError if it is None."""
    if value is None:
        raise KeyError("the checkpoint lacks this field")
    return value
