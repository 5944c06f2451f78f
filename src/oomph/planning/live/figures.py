"""Provides a step's memory in the form that a plan shows, from the simulation, XLA's compiler or real steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from oomph.planning.allocator import chunks_of
from oomph.planning.breakdown import items, layers, timeline
from oomph.planning.gpu_costs import nccl_buffers, workspaces
from oomph.planning.live.engine import Engine
from oomph.planning.peaks import CompiledStep, Peaks
from oomph.planning.plan import ALONE, Device, Interval, Item, Layer, MemoryMoment, PlannedReplicas, exactly, together
from oomph.planning.prediction import Prediction, uncorrected
from oomph.planning.probe_record import ProbeEvidence
from oomph.terminal.amounts import counted

_WORTH_SAYING = 1 << 20
"""The size in bytes below which memory use, such as that of a few counters or seeds, is not worth a remark."""
_COUNTED = ("weights", "optimizer slots", "metrics and counters")


@dataclass(frozen=True)
class Inside:
    """Details of the peak, and of the memory in use throughout the step."""

    layers: tuple[Layer, ...] = ()
    operation: str = ""
    timeline: tuple[MemoryMoment, ...] = ()


class Figures(Protocol):
    """The memory of a training step on a device, in bytes, including the device's own overhead."""

    @property
    def name(self) -> str:
        """The name of the engine that made the estimates."""
        ...

    @property
    def only(self) -> int | None:
        """The only batch size that the estimates cover; None if they cover any size."""
        ...

    @property
    def is_long(self) -> bool:
        """True if the estimates for each further batch size take a long time."""
        ...

    @property
    def unknown(self) -> tuple[str, ...]:
        """The omissions and assumptions of the estimates, one sentence each."""
        ...

    @property
    def measured(self) -> Collection[int]:
        """The batch sizes whose steps ran on the device itself."""
        ...

    def peak(self, batch: int) -> Interval:
        """Return the peak of a step with this many samples."""
        ...

    def items(self, batch: int) -> tuple[Item, ...]:
        """Return the parts that make up the peak."""
        ...

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        """Return details of a step with this many samples; `names` are the names of the model's layers."""
        ...

    def of_changed(self, batch: int) -> Interval | None:
        """Return the peak with the model as it is now; None if this engine cannot see the change or is out of time."""
        ...

    def like(self, simulated: Interval, batch: int) -> Interval:
        """Scale the simulated peak of a changed step to this engine's estimates."""
        ...


class Simulated:
    """The `graph` and `dry-run` engines.

    Args:
        engine: predicts the step.
        device: the device that the estimates are for.
        data: uses of device memory outside the step.
        replicas: the replicas that share a batch and, on the CPU, also a memory pool; the engine predicts one of them.
        evidence: the memory used by other training runs on the same kind of GPU.
    """

    measured: Collection[int] = ()

    def __init__(
        self,
        engine: Engine,
        device: Device | None,
        data: tuple[Item, ...] = (),
        replicas: PlannedReplicas = ALONE,
        evidence: ProbeEvidence | None = None,
    ) -> None:
        self._engine, self._replicas, self._evidence = engine, replicas, evidence
        self.name, self.is_long, self.unknown = engine.name, engine.is_long, engine.unknown
        self.only = None if engine.only is None else replicas.batch_of(engine.only)
        self._others = replicas.count - 1 if device is not None and not device.is_gpu else 0
        self._extras = workspaces(engine.program.convolves) if device is not None and device.is_card else ()
        if self._extras and replicas.count > 1:
            self._extras += (nccl_buffers(),)
        self._extras += data

    def peak(self, batch: int) -> Interval:
        peak = self._whole(self._one(batch).peak)
        if self._evidence is None:
            return peak
        return self._evidence.widened(peak, self._engine.simulated(self._replicas.share(batch)).expected)

    def items(self, batch: int) -> tuple[Item, ...]:
        engine, one = self._engine, self._one(batch)
        found = (*items(engine.program, one, engine.held), *self._beside(one.peak), *self._extras)
        total, peak = together(item.size for item in found), self.peak(batch)
        wider = Interval(0, 0, max(0, peak.high - total.high))
        seen = Item("additional memory that other training runs used on this GPU", wider, "measured")
        return (*found, seen) if self._evidence is not None and wider.high else found

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        engine, typical = self._engine, self._one(batch).typical
        return Inside(
            layers(engine.program, typical, names),
            engine.program.operations[typical.at].name,
            timeline(engine.program, typical, engine.held.total),
        )

    def of_changed(self, batch: int) -> Interval | None:
        return None

    def like(self, simulated: Interval, batch: int) -> Interval:
        return self._whole(simulated)

    def _one(self, batch: int) -> Prediction:
        """Predict the memory of the replica that gets the most samples of a batch."""
        found = self._engine.at(self._replicas.share(batch))
        if self._replicas.count > 1 and self._engine.name == "graph":
            return replace(found, peak=uncorrected(found.peak))
        return found

    def _whole(self, peak: Interval) -> Interval:
        """Return the peak of one replica, plus all memory outside it."""
        for item in (*self._beside(peak), *self._extras):
            peak = peak + item.size
        return peak

    def _beside(self, peak: Interval) -> tuple[Item, ...]:
        """Return the memory that the other replicas use from the same pool. They need not peak at the same time."""
        count = self._others
        if not count:
            return ()
        size = Interval(count * min(self._engine.held.total, peak.low), count * peak.expected, count * peak.high)
        return (Item(counted(count, "more replica"), size, "estimated"),)


def data_on(device: Device | None, arrays: Sequence[int], besides: int) -> tuple[Item, ...]:
    """Return the uses of device memory outside the step.

    Args:
        device: the plan's device.
        arrays: the sizes of the arrays passed to fit.
        besides: the bytes in use on this machine for purposes other than training. On a GPU, that includes tensors, but
            not the buffers of the data pipeline.
    """
    if device is None:
        return ()
    given, besides = sum(arrays) if device.is_gpu else chunks_of(arrays), besides if besides >= _WORTH_SAYING else 0
    size = exactly(besides) if not device.is_gpu else Interval(0, besides, besides)
    found = (
        Item("arrays passed to fit", exactly(given), "counted"),
        Item("other memory held by the script", size, "assumed" if device.is_gpu else "measured", "in use on the CPU"),
    )
    return tuple(item for item in found if item.size.high)


class CompiledByXla:
    """The `xla-gpu` engine. It cannot tell which layer a buffer belongs to.

    Args:
        step: the memory assigned by XLA.
        engine: the simulation of the same step, used to scale simulations of changed steps.
        compile_again: returns the peak for a batch size with the model as it is now, or None if there is no time left.
        data: uses of device memory outside the step.
    """

    name = "xla-gpu"
    is_long = False
    unknown: tuple[str, ...] = ()
    measured: Collection[int] = ()

    def __init__(
        self,
        step: CompiledStep,
        engine: Engine,
        compile_again: Callable[[int], Interval | None],
        data: tuple[Item, ...] = (),
    ) -> None:
        self._step, self._engine, self.only, self._compile_again = step, engine, engine.only, compile_again
        self._data = data

    def peak(self, batch: int) -> Interval:
        return self._with_data(self._step.peak(batch))

    def items(self, batch: int) -> tuple[Item, ...]:
        return (*self._step.items(batch), *self._data)

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        return Inside()

    def of_changed(self, batch: int) -> Interval | None:
        found = self._compile_again(batch)
        return None if found is None else self._with_data(found)

    def like(self, simulated: Interval, batch: int) -> Interval:
        share = simulated.expected / self._engine.at(batch).peak.expected
        return self._with_data(self._step.peak_of_share(batch, share))

    def _with_data(self, peak: Interval) -> Interval:
        return together((peak, *(item.size for item in self._data)))


@dataclass(frozen=True)
class ProbedSteps:
    """The results of real steps on a GPU."""

    peaks: Peaks | None
    """The peak at any batch size; None if no step succeeded."""
    measured: Collection[int]
    """The batch sizes that have just run on this machine."""
    ran_out: int | None
    """The smallest batch size that ran out of memory; None if none did."""
    limit: int
    """The maximum number of bytes available to TensorFlow's allocator."""
    foreign: int
    """The memory, in bytes, that the script holds on the GPU for purposes other than training."""


class Probed:
    """The estimates for a step that ran on a GPU.

    Args:
        shown: the measurements.
        base: the simulation of the same step.
        engine: the engine of the simulation, whose savers are scaled.
        is_xla: True if XLA compiled the steps, so that the simulation does not show what uses the memory.
        inputs: returns the size in bytes of a batch with a given number of samples.
    """

    name = "probe"

    def __init__(
        self, shown: ProbedSteps, base: Figures, engine: Engine, is_xla: bool, inputs: Callable[[int], int]
    ) -> None:
        self._shown, self._base, self._engine, self._is_xla, self._inputs = shown, base, engine, is_xla, inputs
        self.measured = shown.measured
        self.only, self.is_long = base.only, base.is_long and not is_xla
        self.unknown = () if is_xla else base.unknown

    def peak(self, batch: int) -> Interval:
        shown = self._shown
        found = self._base.peak(batch) if shown.peaks is None else shown.peaks.at(batch)
        least = shown.limit + 1
        if shown.ran_out is not None and batch >= shown.ran_out:  # it needs more than the device has
            return Interval(*(max(size, least) for size in (found.low, found.expected, found.high)))
        if shown.peaks is None and self._is_xla:  # no smaller size ran, and the simulation cannot see XLA
            return Interval(found.low, found.expected, max(found.high, least))
        return found

    def items(self, batch: int) -> tuple[Item, ...]:
        """Split the peak by kind of memory. The last kind is everything that is neither counted nor simulated."""
        peak = self.peak(batch)
        known = [item for item in self._engine_items(batch) if item.name in _COUNTED]
        inside = [] if self._is_xla else [item for item in self._engine_items(batch) if item.name not in _COUNTED][:-1]
        if self._is_xla and self._inputs(batch):
            known.append(_item("input batch", self._inputs(batch), "counted"))
        if self._shown.foreign:
            known.append(
                _item("arrays passed to fit, and other memory held by the script", self._shown.foreign, "measured")
            )
        room = max(0, peak.expected - sum(item.size.expected for item in known))
        inside = _within(inside, room)
        left = room - sum(item.size.expected for item in inside)
        rest = Interval(
            max(0, left - (peak.expected - peak.low)), left, left + peak.high - peak.expected
        )  # fmt: skip
        name = "everything else in the step" if self._is_xla else "library workspaces, allocator slack"
        return (*known, *inside, Item(name, rest, "measured" if batch in self.measured else "estimated"))

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        return Inside() if self._is_xla else self._base.inside(batch, names)

    def of_changed(self, batch: int) -> Interval | None:
        return None

    def like(self, simulated: Interval, batch: int) -> Interval:
        return self.peak(batch).scaled(simulated.expected / self._engine.at(batch).peak.expected)

    def _engine_items(self, batch: int) -> tuple[Item, ...]:
        return items(self._engine.program, self._engine.at(batch), self._engine.held)


def _item(name: str, size: int, basis: str) -> Item:
    return Item(name, exactly(size), basis)


def _within(simulated: list[Item], room: int) -> list[Item]:
    """Return the simulated items, all scaled down if their total exceeds `room` bytes."""
    total = sum(item.size.expected for item in simulated)
    if total <= room:
        return simulated
    return [_item(item.name, item.size.expected * room // total, item.basis) for item in simulated]
