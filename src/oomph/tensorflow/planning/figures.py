"""What a step needs, in the form that a plan shows: from the simulation, or from XLA's compiler."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from oomph.memory.breakdown import items, layers, timeline
from oomph.memory.estimate import Device, Interval, Item, Layer, Moment, Saver, together
from oomph.memory.gpu_costs import workspaces
from oomph.memory.probe.record import Evidence
from oomph.memory.xla.step import CompiledStep
from oomph.tensorflow.planning.engine import Engine


@dataclass(frozen=True)
class Inside:
    """What is known of the moment of the peak, and of the rest of the step."""

    layers: tuple[Layer, ...] = ()
    operation: str = ""
    timeline: tuple[Moment, ...] = ()


class Figures(Protocol):
    """One training step on one device. All sizes are in bytes, with everything that the device adds."""

    @property
    def name(self) -> str:
        """The engine."""
        ...

    @property
    def only(self) -> int | None:
        """The one batch size that is known; None if any is."""
        ...

    @property
    def is_long(self) -> bool:
        """Whether each further batch size takes long."""
        ...

    @property
    def unknown(self) -> tuple[str, ...]:
        """What the figures leave out or assume, one sentence each."""
        ...

    @property
    def measured(self) -> Collection[int]:
        """The batch sizes that have run on the device itself."""
        ...

    def peak(self, batch: int) -> Interval:
        """The peak of a step of that many samples."""
        ...

    def items(self, batch: int) -> tuple[Item, ...]:
        """What it consists of."""
        ...

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        """The step from within; `names` are those of the model's layers."""
        ...

    def saver(self, saver: Saver, batch: int) -> Saver:
        """A saver that was planned by simulation, with a peak like those of this engine."""
        ...


class Simulated:
    """The engines `graph` and `dry-run`.

    Args:
        engine: predicts the step.
        device: what it is for.
        arrays: bytes of the arrays given to fit; they lie in the pool if the device is the CPU's.
        evidence: what other trainings have taken on that GPU.
    """

    measured: Collection[int] = ()

    def __init__(
        self, engine: Engine, device: Device | None, arrays: int = 0, evidence: Evidence | None = None
    ) -> None:
        self._engine, self._evidence = engine, evidence
        self.name, self.only, self.is_long, self.unknown = engine.name, engine.only, engine.is_long, engine.unknown
        convolves = any(operation.kind.startswith("Conv") for operation in engine.program.operations)
        self._extras = workspaces(convolves) if device is not None and device.is_card else ()
        if device is not None and not device.is_gpu and arrays:
            self._extras += (Item("arrays given to fit", Interval(arrays, arrays, arrays), "counted"),)

    def peak(self, batch: int) -> Interval:
        peak = self._with_extras(self._engine.at(batch).peak)
        if self._evidence is None:
            return peak
        return self._evidence.widened(peak, self._engine.simulated(batch).expected)

    def items(self, batch: int) -> tuple[Item, ...]:
        engine = self._engine
        found = (*items(engine.program, engine.at(batch), engine.held), *self._extras)
        total, peak = together(item.size for item in found), self.peak(batch)
        wider = Interval(0, 0, max(0, peak.high - total.high))
        seen = Item("what other trainings took more on this GPU", wider, "measured")
        return (*found, seen) if self._evidence is not None and wider.high else found

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        engine, typical = self._engine, self._engine.at(batch).typical
        return Inside(
            layers(engine.program, typical, names),
            engine.program.operations[typical.at].name,
            timeline(engine.program, typical, engine.held.total),
        )

    def saver(self, saver: Saver, batch: int) -> Saver:
        return saver if saver.peak is None else replace(saver, peak=self._with_extras(saver.peak))

    def _with_extras(self, peak: Interval) -> Interval:
        for item in self._extras:
            peak = peak + item.size
        return peak


class CompiledByXla:
    """The engine `xla-gpu`. It does not see which layer a buffer belongs to.

    Args:
        step: what XLA has assigned.
        engine: the simulation of the same step, whose savers are scaled.
    """

    name = "xla-gpu"
    is_long = False
    unknown: tuple[str, ...] = ()
    measured: Collection[int] = ()

    def __init__(self, step: CompiledStep, engine: Engine) -> None:
        self._step, self._engine, self.only = step, engine, engine.only

    def peak(self, batch: int) -> Interval:
        return self._step.peak(batch)

    def items(self, batch: int) -> tuple[Item, ...]:
        return self._step.items(batch)

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        return Inside()

    def saver(self, saver: Saver, batch: int) -> Saver:
        if saver.peak is None:
            return saver
        share = saver.peak.expected / self._engine.at(batch).peak.expected
        return replace(saver, peak=self._step.peak_of_share(batch, share))
