"""Records how much memory a training run's steps used on a GPU, both measured and simulated. Pure.

A record is evidence in two ways. The same step needs the same memory on the same kind of GPU with the same TensorFlow
version. For other training runs, it only shows how far off the simulation has been on such a GPU, which may widen
bounds but never narrows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oomph.files.conforming import conforms
from oomph.planning.plan import Interval
from oomph.terminal.amounts import counted

SCHEMA = 1
_MOST_POINTS = 16
_LONGEST = 200
_TYPES = {"gpu": str, "tensorflow": str, "engine": str, "xla": bool, "training": str, "limit": int, "foreign": int}


@dataclass(frozen=True)
class Point:
    """The measured and predicted peaks of steps at one batch size, in bytes."""

    batch: int
    measured: int
    predicted: int
    """The peak that the engine predicted, without any correction."""


@dataclass(frozen=True)
class ProbeRecord:
    """The record of one training run on one kind of GPU."""

    gpu: str
    """TensorFlow's name for the GPU."""
    tensorflow: str
    """The TensorFlow version."""
    engine: str
    """The engine that made the predictions: `graph`."""
    xla: bool
    """True if XLA compiled the step that ran."""
    training: str
    """A digest of the step; see `planning/live/step_at_sizes.py`."""
    limit: int
    """The maximum number of bytes available to TensorFlow's allocator."""
    foreign: int
    """The memory, in bytes, that the script held on the GPU for purposes other than training."""
    points: tuple[Point, ...]


@dataclass(frozen=True)
class ProbeEvidence:
    """The range of ratios of measured to simulated memory, from other training runs on the same kind of GPU."""

    trainings: int
    least: float
    greatest: float

    def widened(self, peak: Interval, simulated: int) -> Interval:
        """Extend the interval to the range that these training runs suggest; it never gets narrower.

        Args:
            peak: the interval of a plan.
            simulated: the simulated peak, without any correction.
        """
        low, high = round(self.least * simulated), round(self.greatest * simulated)
        return Interval(min(peak.low, low), peak.expected, max(peak.high, high))


def as_document(record: ProbeRecord) -> dict[str, Any]:
    """Return the record as JSON."""
    return {"schema": SCHEMA, **asdict(record)}


def record_of(document: object) -> ProbeRecord:
    """Read the record from a JSON document, which may come from anywhere. Raises ValueError for any other document."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError("not a record from this version of oomph")
    points: Any = document.get("points")
    if not conforms(points, list[Mapping[str, int]]) or not 1 <= len(points) <= _MOST_POINTS:
        raise ValueError("no points")
    if not all(conforms(document.get(name), kind) for name, kind in _TYPES.items()):
        raise ValueError("a field is missing or has the wrong type")
    if not all(set(point) == {"batch", "measured", "predicted"} and min(point.values()) > 0 for point in points):
        raise ValueError("a point is malformed")
    values = {name: document[name] for name in _TYPES}
    if values["limit"] <= 0 or values["foreign"] < 0 or any(len(str(value)) > _LONGEST for value in values.values()):
        raise ValueError("an impossible value")
    return ProbeRecord(**values, points=tuple(Point(**point) for point in points))


def of_same_training(records: Iterable[ProbeRecord], training: str, xla: bool) -> ProbeRecord | None:
    """Return the record of the same step that also matches the use of XLA, or None if there is none."""
    return next((each for each in records if training and each.training == training and each.xla == xla), None)


def evidence(records: Sequence[ProbeRecord], xla: bool, engine: str = "graph") -> ProbeEvidence | None:
    """Return the records' evidence about the simulation of steps with or without XLA, or None if there is none.

    Only the largest size of each training run counts: at small sizes, the libraries' fixed use hides everything else.
    """
    alike = [record for record in records if record.xla == xla and record.engine == engine]
    largest = [(record, max(record.points, key=lambda point: point.batch)) for record in alike]
    ratios = [max(0, point.measured - record.foreign) / point.predicted for record, point in largest]
    return ProbeEvidence(len(alike), min(ratios), max(ratios)) if ratios else None


def seen_in_words(found: ProbeEvidence | None) -> tuple[str, ...]:
    """Return the evidence as a sentence; empty if there is no evidence."""
    if found is None:
        return ()
    return (
        f"The bounds include {counted(found.trainings, 'training run')} measured on this GPU, which used "
        f"{found.least:.2f} to {found.greatest:.2f} times the memory that the simulation predicted.",
    )
