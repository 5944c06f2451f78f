"""The values of a plan: intervals in bytes, what they consist of, and which batch fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Fitting(Enum):
    """True if a training fits a device. `UNKNOWN` where the engine does not see what decides it, such as XLA."""

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
    """The sum of some amounts."""
    total = Interval(0, 0, 0)
    for size in sizes:
        total = total + size
    return total


@dataclass(frozen=True)
class Item:
    """One line of the breakdown: what takes memory, and whether the figure was counted, measured or assumed."""

    name: str
    """Such as `weights`, `gradients`, `optimizer slots`, `activations`, `input batches`, `CUDA context`."""
    size: Interval
    basis: str
    """`counted` from the model, `estimated` by the engine, `compiled` by XLA, `measured` in a real step, or `assumed`
    from a source."""
    source: str = ""
    """Origin of an assumed or measured figure."""


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
    """Estimate for one batch size."""

    batch: int
    peak: Interval
    fits: Fitting


@dataclass(frozen=True)
class Saver:
    """One way to need less memory, planned anew at the largest batch of `estimates`."""

    name: str
    peak: Interval | None
    """None where it was not planned; `changes` then says why."""
    changes: str
    """Its cost and its effect on the training."""
    line: str
    """The line to add to the script, or the command; empty where there is none."""
    basis: str = ""
    """`compiled` by XLA with that change, or `estimated`; empty if not planned."""


@dataclass(frozen=True)
class Device:
    """The device that the training has to fit."""

    name: str
    memory: int
    """Bytes, as stated by the vendor or the driver."""
    usable: int
    """Most bytes that TensorFlow's allocator gets, without TensorFlow's reserve and CUDA's own use."""
    is_card: bool = True
    """False for a bare amount of memory, all of which TensorFlow may use."""
    is_gpu: bool = True
    """False for TensorFlow's memory pool on the CPU, where Keras uses XLA only if it is told to."""
    capability: str = ""
    """Its compute capability, such as "8.9"; empty if unknown."""


@dataclass(frozen=True)
class Plan:
    """The memory that a training needs."""

    engine: str
    """The engine behind the figures: `graph`, `dry-run`, `xla-gpu` or `probe`."""
    accuracy: str
    """The measured error of this engine in words, as docs/measurements.md has it."""
    subject: str
    """The training in a few words: model, parameters, optimizer, precision, XLA."""
    place: str
    """The fit, as `train.py:42`."""
    batch: int
    """The batch size of the script, in samples."""
    estimates: tuple[Estimate, ...]
    """One for each requested batch size, rising."""
    curve: tuple[tuple[int, Interval], ...]
    """More batch sizes and their peaks, for a picture."""
    device: Device | None
    max_batch: int | None
    """The largest batch that fits, judged by the high end; 0 if none does; None without a device or if unknown."""
    micro_batch: int | None
    """The largest micro-batch that fits beside the sums of the gradients, at most the script's batch; 0 if none does;
    None if unknown."""
    items: tuple[Item, ...]
    """The peak at the largest batch of `estimates`, by kind."""
    layers: tuple[Layer, ...]
    """The activations at the peak by layer, largest first."""
    peak_operation: str
    timeline: tuple[MemoryMoment, ...]
    """The memory through one step, at most some hundred moments."""
    savers: tuple[Saver, ...]
    notes: tuple[str, ...]
    """Omissions and assumptions, one sentence each."""
    warnings: tuple[str, ...] = ()
    """Objections to the training on this device, or to its figures, one sentence each."""
    replicas: int = 1
    """Replicas that share each batch. Batch sizes count the whole batch, except `micro_batch`, which is per replica;
    amounts of memory are per replica's device."""
    why_open: str = ""
    """The reason it is unknown which batch fits, and how to find out, as one sentence without a full stop; or empty."""
    measured: tuple[int, ...] = ()
    """The batch sizes of which steps have just run on the device itself."""
