"""Defines a plan: intervals, their parts, the largest batch that fits, and the JSON form. Pure; all sizes in bytes.

`--json` prints this JSON, and the script's process sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from oomph.planning.batch_sizes import MOST
from oomph.terminal import panel
from oomph.terminal.amounts import in_three_digits
from oomph.terminal.message import shown_line
from oomph.terminal.panel import screenful
from oomph.terminal.screen import USUAL_WIDTH
from oomph.terminal.wrapping import shortened, table, wrapped

SCHEMA = 1
HEAD = ("batch", "expected", "at least", "at most", "fits")
"""The headings of a plan's rows."""
_MOST_WARNINGS, _LONGEST_NAME = 3, 80
"""The maximum number of warnings to show, and of characters of a name in a repr."""
_AS_THEY_ARE = (
    "engine", "accuracy", "subject", "place", "batch", "max_batch", "micro_batch", "peak_operation", "replicas",
    "why_open",
)  # fmt: skip
"""The fields of a plan that its JSON contains unchanged."""


@dataclass(frozen=True)
class PlannedReplicas:
    """The replicas that share a batch."""

    count: int = 1

    def share(self, batch: int) -> int:
        """Return the largest number of samples of a batch that any replica gets."""
        return -(-batch // self.count)

    def batch_of(self, share: int) -> int:
        """Return the batch size at which each replica gets `share` samples."""
        return share * self.count

    def words(self, batch: int) -> str:
        """Describe in one sentence how a batch is shared; empty for a single replica."""
        if self.count == 1:
            return ""
        share = self.share(batch)
        most = "" if batch == self.batch_of(share) else "at most "
        return (
            f"Each of {self.count} replicas gets {most}{share:,} samples of the batch of {batch:,}; the sizes are for "
            "one replica, on its own device."
        )


ALONE = PlannedReplicas()
"""The single replica used without a strategy, or with a strategy for one device."""


class Fitting(Enum):
    """The verdict on whether training fits: `UNKNOWN` if the engine cannot see what decides it, such as XLA."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Interval:
    """An amount of memory in bytes: the expected value, and bounds that should hold."""

    low: int
    expected: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.expected <= self.high:
            raise ValueError(f"not an interval: {self.low}, {self.expected}, {self.high}")

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def scaled(self, share: float) -> Interval:
        """Return the given fraction of the amount."""
        return Interval(*(round(share * size) for size in (self.low, self.expected, self.high)))


def exactly(size: int) -> Interval:
    """Return the interval for an amount known exactly, in bytes."""
    return Interval(size, size, size)


def together(sizes: Iterable[Interval]) -> Interval:
    """Add up several amounts of memory."""
    total = Interval(0, 0, 0)
    for size in sizes:
        total = total + size
    return total


@dataclass(frozen=True)
class Item:
    """One line of the breakdown: a use of memory, and whether its size was counted, measured or assumed."""

    name: str
    """The use of the memory: `weights`, `gradients`, `optimizer slots`, `activations`, `input batches`, ..."""
    size: Interval
    basis: str
    """The basis for the size.

    It is `counted` from the model, `estimated` by the engine, `compiled` by XLA, `measured` in a real step, or
    `assumed` from a source.
    """
    source: str = ""
    """The source of an assumed or measured size."""


@dataclass(frozen=True)
class Layer:
    """A layer's share, in bytes, of the memory at the peak, under the user's name for the layer."""

    name: str
    size: int


@dataclass(frozen=True)
class MemoryMoment:
    """The memory in use, in bytes, after one operation of the step."""

    operation: str
    size: int


@dataclass(frozen=True)
class Estimate:
    """The estimated peak at one batch size, and the verdict on whether it fits."""

    batch: int
    peak: Interval
    fits: Fitting


@dataclass(frozen=True)
class Saver:
    """One way to save memory, planned at the largest batch of `estimates`."""

    name: str
    peak: Interval | None
    """The peak with this change; None if it was not planned, in which case `changes` explains why."""
    changes: str
    """The cost of the change, and its effect on training."""
    line: str
    """The line to add to the script, or the command to run; empty if there is none."""
    basis: str = ""
    """The basis for the peak: `compiled` by XLA with this change, or `estimated`; empty if it was not planned."""


@dataclass(frozen=True)
class Device:
    """The device that training has to fit on."""

    name: str
    memory: int
    """The device's memory in bytes, as stated by the vendor or the driver."""
    usable: int
    """The maximum bytes for TensorFlow's allocator: `memory` minus TensorFlow's reserve and CUDA's own use."""
    is_card: bool = True
    """False for a bare amount of memory, all of which TensorFlow may use."""
    is_gpu: bool = True
    """False for TensorFlow's CPU memory pool, where Keras uses XLA only if told to."""
    capability: str = ""
    """The device's compute capability, such as "8.9"; empty if unknown."""


@dataclass(frozen=True)
class Plan:
    """The memory that a training run needs, and the largest batch size that fits on the device."""

    engine: str
    """The engine that made the estimates: `graph`, `dry-run`, `xla-gpu` or `probe`."""
    accuracy: str
    """The measured error of this engine, as a phrase from docs/measurements.md."""
    subject: str
    """A short description of what is trained: model, parameters, optimizer, precision, XLA."""
    place: str
    """The file and line of the fit call, such as `train.py:42`."""
    batch: int
    """The script's batch size."""
    estimates: tuple[Estimate, ...]
    """The estimates for the requested batch sizes, in increasing order."""
    curve: tuple[tuple[int, Interval], ...]
    """The peaks at additional batch sizes, for a chart."""
    device: Device | None
    max_batch: int | None
    """The largest batch whose upper bound fits; 0 if none does; None without a device or if unknown."""
    micro_batch: int | None
    """The largest micro-batch, up to the script's batch size, that fits alongside the summed gradients.

    It is 0 if none fits, and None if unknown or if a run would not split the batch.
    """
    items: tuple[Item, ...]
    """The parts of the peak at the largest batch of `estimates`, by kind of memory."""
    layers: tuple[Layer, ...]
    """The activations at the peak by layer, in bytes, largest first."""
    peak_operation: str
    timeline: tuple[MemoryMoment, ...]
    """The memory in use through one step, at up to a few hundred moments."""
    savers: tuple[Saver, ...]
    notes: tuple[str, ...]
    """The omissions and assumptions of the estimates, one sentence each."""
    warnings: tuple[str, ...] = ()
    """Warnings about training on this device or about the estimates, one sentence each."""
    replicas: int = 1
    """The number of replicas that share each batch.

    Batch sizes refer to the whole batch, except for `micro_batch`, which is per replica; amounts of memory refer to one
    replica's device.
    """
    why_open: str = ""
    """The reason why it is unknown which batch fits, and how to find out, without a full stop; empty if known."""
    measured: tuple[int, ...] = ()
    """The batch sizes whose steps have just run on the device itself."""

    def __repr__(self) -> str:
        names = (self.place, "no device" if self.device is None else self.device.name)
        place, on = (shortened(shown_line(name), _LONGEST_NAME) for name in names)
        return f"Plan({place!r}, {self.engine}, batch={self.batch}, max_batch={self.max_batch}, {on!r})"

    def __str__(self) -> str:
        head = (wrapped(shown_line(text), USUAL_WIDTH, "  ") for text in self._first_lines)
        return screenful([*head, "", *table([HEAD, *self.rows], USUAL_WIDTH)])

    def _repr_html_(self) -> str:
        """Return the plan as a panel for notebooks."""
        title, *others = self._first_lines
        own = self._own_fits
        tone = {Fitting.YES: panel.Tone.GOOD, Fitting.NO: panel.Tone.BAD}.get(own, panel.Tone.NEWS)
        return panel.panel(title, [*map(panel.paragraph, others), panel.table(HEAD, self.rows)], tone)

    @property
    def _first_lines(self) -> list[str]:
        warnings = [f"Warning: {warning}" for warning in self.warnings[:_MOST_WARNINGS]]
        return [f"{self.place}: {self.subject}", self.verdict, *warnings]

    @property
    def verdict(self) -> str:
        """The batch that fits and the device that it fits on, in one sentence."""
        open_too = f" {sentence(self.why_open)}" if self.why_open else ""
        if self.device is None:
            return (
                "Whether it fits is unknown: there is no NVIDIA GPU here. Specify one with --gpu 'RTX 4090' or --gpu "
                f"24GiB.{open_too}"
            )
        on, own = _on(self.device), self._own_fits
        if self.max_batch is None:
            if own is Fitting.NO:
                return f"The script's batch of {self.batch:,} does not fit on {on}.{open_too}"
            if own is Fitting.YES:
                return f"The script's batch of {self.batch:,} should fit on {on}. The largest is unknown.{open_too}"
            asked = self._asked_in_words(on)
            if asked:
                return f"{asked}.{open_too}"
            return f"It is unknown which batch fits on {on}: {self.why_open or 'the notes explain why'}."
        if self.max_batch == 0:
            return f"No batch is certain to fit on {on}."
        if len(self.curve) == 1:
            return (
                f"The script's batch of {self.batch:,} should fit on {on}. The step can only be planned at that size."
            )
        if self.max_batch >= MOST:
            return f"Every batch up to {MOST:,} should fit on {on}; larger ones were not tried."
        fits = "does not fit" if self.batch > self.max_batch else "should fit"
        return (
            f"The largest batch that should fit is {self.max_batch:,}, on {on}; the script's batch of"
            f" {self.batch:,} {fits}."
        )

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The estimates as rows of a table, below `HEAD`."""
        return [_row(estimate, estimate.batch in self.measured) for estimate in self.estimates]

    @property
    def _own_fits(self) -> Fitting:
        """The verdict on the script's own batch size, or `UNKNOWN` if it was not planned."""
        return next((estimate.fits for estimate in self.estimates if estimate.batch == self.batch), Fitting.UNKNOWN)

    def _asked_in_words(self, on: str) -> str:
        """State which of the planned batches fit; empty if that is unknown for all of them."""
        fitting = [estimate.batch for estimate in self.estimates if estimate.fits is Fitting.YES]
        failing = [estimate.batch for estimate in self.estimates if estimate.fits is Fitting.NO]
        if not fitting:
            return f"A batch of {min(failing):,} does not fit on {on}" if failing else ""
        too_large = f", one of {min(failing):,} does not" if failing else ""
        return f"A batch of {max(fitting):,} should fit on {on}{too_large or '. The largest is unknown'}"


def sentence(text: str) -> str:
    """Return a clause as a sentence, with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def _on(device: Device) -> str:
    """Describe the device and how much of its memory training may use."""
    if device.usable < device.memory:
        return (
            f"{device.name}, where TensorFlow can use {in_three_digits(device.usable)} of "
            f"{in_three_digits(device.memory)}"
        )
    return (
        f"{device.name} for TensorFlow alone" if device.is_gpu else f"{device.name} of {in_three_digits(device.usable)}"
    )


def _row(estimate: Estimate, is_measured: bool) -> tuple[str, ...]:
    peak, fits = estimate.peak, estimate.fits
    said = "?" if fits is Fitting.UNKNOWN else fits.value
    said += ", measured" if is_measured else ""
    return (
        f"{estimate.batch:,}",
        in_three_digits(peak.expected),
        in_three_digits(peak.low),
        in_three_digits(peak.high),
        said,
    )


def as_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as a JSON document."""
    return {
        "schema": SCHEMA,
        "engine": plan.engine,
        "accuracy": plan.accuracy,
        "subject": plan.subject,
        "place": plan.place,
        "batch": plan.batch,
        "device": None if plan.device is None else asdict(plan.device),
        "max_batch": plan.max_batch,
        "micro_batch": plan.micro_batch,
        "estimates": [{"batch": each.batch, **asdict(each.peak), "fits": each.fits.value} for each in plan.estimates],
        "curve": [{"batch": batch, **asdict(peak)} for batch, peak in plan.curve],
        "items": [_item(item) for item in plan.items],
        "layers": [asdict(layer) for layer in plan.layers],
        "peak_operation": plan.peak_operation,
        "timeline": [asdict(moment) for moment in plan.timeline],
        "savers": [_saver(saver) for saver in plan.savers],
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
        "replicas": plan.replicas,
        "samples_per_replica": PlannedReplicas(plan.replicas).share(plan.batch),
        "why_open": plan.why_open,
        "measured": list(plan.measured),
    }


def as_document_without(reason: str) -> dict[str, Any]:
    """Return the JSON document for training that could not be planned, with the reason."""
    return {"schema": SCHEMA, "engine": None, "reason": reason, "estimates": [], "max_batch": None, "savers": []}


def plan_of(document: Mapping[str, Any]) -> Plan:
    """Read the plan from a JSON document. Raises ValueError if the document has a different schema."""
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        return _plan_of(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a plan: {type(error).__name__}: {error}") from error


def _plan_of(document: Mapping[str, Any]) -> Plan:
    device = document["device"]
    return Plan(
        **{name: document[name] for name in _AS_THEY_ARE},
        estimates=tuple(Estimate(row["batch"], _interval(row), Fitting(row["fits"])) for row in document["estimates"]),
        curve=tuple((row["batch"], _interval(row)) for row in document["curve"]),
        device=None if device is None else Device(**device),
        items=tuple(
            Item(row["name"], _interval(row), row["basis"], row["source"]) for row in document["items"]
        ),
        layers=tuple(Layer(**row) for row in document["layers"]),
        notes=tuple(document["notes"]),
        warnings=tuple(document["warnings"]),
        measured=tuple(document["measured"]),
        timeline=tuple(MemoryMoment(**row) for row in document["timeline"]),
        savers=tuple(
            Saver(
                row["name"], None if row["expected"] is None else _interval(row), row["changes"], row["line"],
                row["basis"],
            )
            for row in document["savers"]
        ),
    )  # fmt: skip


def _item(item: Item) -> dict[str, Any]:
    return {"name": item.name, **asdict(item.size), "basis": item.basis, "source": item.source}


def _saver(saver: Saver) -> dict[str, Any]:
    peak = {"low": None, "expected": None, "high": None} if saver.peak is None else asdict(saver.peak)
    return {"name": saver.name, **peak, "changes": saver.changes, "line": saver.line, "basis": saver.basis}


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(row["low"], row["expected"], row["high"])
