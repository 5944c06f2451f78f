"""The values of a plan: intervals in bytes, what they consist of, and which batch fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Fitting(Enum):
    """The verdict on a training's fit. `UNKNOWN` if the engine does not see what decides that, such as XLA."""

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


def together(sizes: Iterable[Interval]) -> Interval:
    """The sum of several amounts of memory."""
    total = Interval(0, 0, 0)
    for size in sizes:
        total = total + size
    return total


@dataclass(frozen=True)
class Item:
    """One line of the breakdown: what takes memory, and whether the figure was counted, measured or assumed."""

    name: str
    """The user of the memory: `weights`, `gradients`, `optimizer slots`, `activations`, `input batches`, ..."""
    size: Interval
    basis: str
    """The source of the size: `counted` from the model, `estimated` by the engine, `compiled` by XLA, `measured` in a
    real step, or `assumed` from a source."""
    source: str = ""
    """The source of an assumed or measured size."""


@dataclass(frozen=True)
class Layer:
    """A layer's share of the memory at the peak, in bytes, under the user's own name for it."""

    name: str
    size: int


@dataclass(frozen=True)
class MemoryMoment:
    """The memory in use after one operation of the step, in bytes."""

    operation: str
    size: int


@dataclass(frozen=True)
class Estimate:
    """The estimated peak at one batch size, and whether it fits."""

    batch: int
    peak: Interval
    fits: Fitting


@dataclass(frozen=True)
class Saver:
    """One way to save memory, planned at the largest batch of `estimates`."""

    name: str
    peak: Interval | None
    """The peak with this change; None if it was not planned, and `changes` then says why."""
    changes: str
    """The cost of the change, and its effect on the training."""
    line: str
    """The line to add to the script, or the command to run; empty if there is none."""
    basis: str = ""
    """The source of the peak: `compiled` by XLA with this change, or `estimated`; empty if it was not planned."""


@dataclass(frozen=True)
class Device:
    """The device that the training has to fit."""

    name: str
    memory: int
    """The memory of the device in bytes, as the vendor or the driver states it."""
    usable: int
    """The most bytes that TensorFlow's allocator can get: `memory` without TensorFlow's reserve and CUDA's own use."""
    is_card: bool = True
    """False for a bare amount of memory, all of which TensorFlow may use."""
    is_gpu: bool = True
    """False for TensorFlow's memory pool on the CPU, where Keras uses XLA only if it is told to."""
    capability: str = ""
    """The compute capability of the device, such as "8.9"; empty if unknown."""


@dataclass(frozen=True)
class Plan:
    """The memory that a training needs, and the batch that fits the device."""

    engine: str
    """The engine behind the figures: `graph`, `dry-run`, `xla-gpu` or `probe`."""
    accuracy: str
    """The error of this engine as measured, in words, as in docs/measurements.md."""
    subject: str
    """The training in a few words: model, parameters, optimizer, precision, XLA."""
    place: str
    """The file and line of the fit, such as `train.py:42`."""
    batch: int
    """The batch size of the script, in samples."""
    estimates: tuple[Estimate, ...]
    """The estimates for the requested batch sizes, in rising order."""
    curve: tuple[tuple[int, Interval], ...]
    """The peaks at more batch sizes, for a chart."""
    device: Device | None
    max_batch: int | None
    """The largest batch whose upper bound fits; 0 if none does; None without a device or if unknown."""
    micro_batch: int | None
    """The largest micro-batch that fits beside the summed gradients, at most the script's batch; 0 if none does; None
    if unknown."""
    items: tuple[Item, ...]
    """The parts of the peak at the largest batch of `estimates`, by kind of memory."""
    layers: tuple[Layer, ...]
    """The bytes of activations at the peak by layer, largest first."""
    peak_operation: str
    timeline: tuple[MemoryMoment, ...]
    """The memory in use through one step, in at most a few hundred moments."""
    savers: tuple[Saver, ...]
    notes: tuple[str, ...]
    """The omissions and assumptions of the figures, one sentence each."""
    warnings: tuple[str, ...] = ()
    """Warnings about the training on this device, or about its figures, one sentence each."""
    replicas: int = 1
    """The number of replicas that share each batch. Batch sizes are of the whole batch, except `micro_batch`, which is
    per replica; amounts of memory are those of one replica's device."""
    why_open: str = ""
    """The reason it is unknown which batch fits, and how to find out, without a full stop; empty if known."""
    measured: tuple[int, ...] = ()
    """The batch sizes at which steps have just run on the device itself."""
