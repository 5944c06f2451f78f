"""The record of a training that ran on a GPU: the memory of its steps, measured and simulated. Pure.

It is evidence of two kinds. The same step needs the same memory on the same kind of GPU with the same TensorFlow. For
other trainings it only shows how far the simulation has been off on such a GPU, which widens bounds and never narrows
them.
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
    """The measured and the predicted peak of steps at one batch size, in bytes."""

    batch: int
    measured: int
    predicted: int
    """The peak that the engine predicted, without any correction."""


@dataclass(frozen=True)
class ProbeRecord:
    """The record of one training on one kind of GPU."""

    gpu: str
    """TensorFlow's name for the GPU."""
    tensorflow: str
    """The version of TensorFlow."""
    engine: str
    """The engine that made the predictions: `graph`."""
    xla: bool
    """True if XLA compiled the step that ran."""
    training: str
    """A digest of the step, see `planning/live/step_at_sizes.py`."""
    limit: int
    """The most bytes that TensorFlow's allocator could get."""
    foreign: int
    """The size in bytes of what the script held on the GPU in addition to the training."""
    points: tuple[Point, ...]


@dataclass(frozen=True)
class ProbeEvidence:
    """Ratios of measured to simulated memory, from other trainings on that GPU."""

    trainings: int
    least: float
    greatest: float

    def widened(self, peak: Interval, simulated: int) -> Interval:
        """Extend the interval to what these trainings suggest; it never gets narrower.

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
    """Read the record from a JSON document, which may come from anywhere. Raises ValueError for anything else."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError("not a record of this oomph")
    points: Any = document.get("points")
    if not conforms(points, list[Mapping[str, int]]) or not 1 <= len(points) <= _MOST_POINTS:
        raise ValueError("no points")
    if not all(conforms(document.get(name), kind) for name, kind in _TYPES.items()):
        raise ValueError("a field is missing, or of the wrong type")
    if not all(set(point) == {"batch", "measured", "predicted"} and min(point.values()) > 0 for point in points):
        raise ValueError("a point is malformed")
    values = {name: document[name] for name in _TYPES}
    if values["limit"] <= 0 or values["foreign"] < 0 or any(len(str(value)) > _LONGEST for value in values.values()):
        raise ValueError("an impossible value")
    return ProbeRecord(**values, points=tuple(Point(**point) for point in points))


def of_same_training(records: Iterable[ProbeRecord], training: str, xla: bool) -> ProbeRecord | None:
    """Return the record of the same step, with or without XLA as given; None if there is none."""
    return next((each for each in records if training and each.training == training and each.xla == xla), None)


def evidence(records: Sequence[ProbeRecord], xla: bool, engine: str = "graph") -> ProbeEvidence | None:
    """Return the records' evidence on the simulation, for steps with XLA or without; None if they show nothing.

    The largest size of each training counts: in small ones, the libraries' fixed use hides everything else.
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
        f"The bounds include what {counted(found.trainings, 'training')} measured on this GPU took: "
        f"{found.least:.2f} to {found.greatest:.2f} times what the simulation had predicted.",
    )
