"""The memory of a step, in the form that a plan shows: from the simulation, or from XLA's compiler."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from oomph.planning.allocator import chunks_of
from oomph.planning.breakdown import items, layers, timeline
from oomph.planning.calibration import uncorrected
from oomph.planning.estimate import Device, Interval, Item, Layer, MemoryMoment, together
from oomph.planning.gpu_costs import nccl_buffers, workspaces
from oomph.planning.live.engine import Engine
from oomph.planning.prediction import Prediction
from oomph.planning.probe.record import ProbeEvidence
from oomph.planning.replicas import ALONE, PlannedReplicas
from oomph.planning.xla.step import CompiledStep
from oomph.terminal.amounts import counted

_WORTH_SAYING = 1 << 20
"""An amount of memory below this many bytes is not worth a remark: a few counters or seeds."""


@dataclass(frozen=True)
class Inside:
    """Details of the peak, and of memory through the step."""

    layers: tuple[Layer, ...] = ()
    operation: str = ""
    timeline: tuple[MemoryMoment, ...] = ()


class Figures(Protocol):
    """The memory of a training step on a device, in bytes, including what the device adds."""

    @property
    def name(self) -> str:
        """The name of the engine behind the figures."""
        ...

    @property
    def only(self) -> int | None:
        """The one batch size that the figures are for; None if they are for any size."""
        ...

    @property
    def is_long(self) -> bool:
        """True if the figures for each further batch size take long."""
        ...

    @property
    def unknown(self) -> tuple[str, ...]:
        """The omissions and assumptions of the figures, one sentence each."""
        ...

    @property
    def measured(self) -> Collection[int]:
        """The batch sizes at which steps have run on the device itself."""
        ...

    def peak(self, batch: int) -> Interval:
        """The peak of a step with this many samples."""
        ...

    def items(self, batch: int) -> tuple[Item, ...]:
        """The parts that make up the peak."""
        ...

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        """Details of a step with this many samples; `names` are the names of the model's layers."""
        ...

    def of_changed(self, batch: int) -> Interval | None:
        """The peak with the model as it is now; None if this engine cannot see the change, or has no time."""
        ...

    def like(self, simulated: Interval, batch: int) -> Interval:
        """The simulated peak of a changed step, scaled to this engine's figures."""
        ...


class Simulated:
    """The engines `graph` and `dry-run`.

    Args:
        engine: predicts the step.
        device: the device that the figures are for.
        data: items on the device besides the step.
        replicas: the replicas that share a batch, and on the CPU also its pool; the engine predicts one of them.
        evidence: the memory of other trainings on that GPU.
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
        convolves = any(operation.kind.startswith("Conv") for operation in engine.program.operations)
        self._extras = workspaces(convolves) if device is not None and device.is_card else ()
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
        seen = Item("what other trainings took more on this GPU", wider, "measured")
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
        """The prediction for the replica that gets the most samples of a batch."""
        found = self._engine.at(self._replicas.share(batch))
        if self._replicas.count > 1 and self._engine.name == "graph":
            return replace(found, peak=uncorrected(found.peak))
        return found

    def _whole(self, peak: Interval) -> Interval:
        """The peak of one replica, plus all memory beside it."""
        for item in (*self._beside(peak), *self._extras):
            peak = peak + item.size
        return peak

    def _beside(self, peak: Interval) -> tuple[Item, ...]:
        """The memory that the other replicas take from the same pool. Replicas need not peak at the same time."""
        count = self._others
        if not count:
            return ()
        size = Interval(count * min(self._engine.held.total, peak.low), count * peak.expected, count * peak.high)
        return (Item(counted(count, "more replica"), size, "estimated"),)


def data_on(device: Device | None, arrays: Sequence[int], besides: int) -> tuple[Item, ...]:
    """Items of device memory outside the step.

    Args:
        device: the device that the plan is for.
        arrays: the sizes of the arrays given to fit.
        besides: bytes in use here outside the training. On a GPU, that includes tensors, but not the buffers of the
            data pipeline.
    """
    if device is None:
        return ()
    given, besides = sum(arrays) if device.is_gpu else chunks_of(arrays), besides if besides >= _WORTH_SAYING else 0
    size = Interval(besides, besides, besides) if not device.is_gpu else Interval(0, besides, besides)
    found = (
        Item("arrays given to fit", Interval(given, given, given), "counted"),
        Item("what the script holds besides", size, "assumed" if device.is_gpu else "measured", "in use on the CPU"),
    )
    return tuple(item for item in found if item.size.high)


class CompiledByXla:
    """The engine `xla-gpu`. It does not see which layer a buffer belongs to.

    Args:
        step: the memory assigned by XLA.
        engine: the simulation of the same step, by which simulations of changed steps are scaled.
        compile_again: the peak for a batch size with the model as it is now; None if there is no time.
        data: items on the device besides the step.
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
