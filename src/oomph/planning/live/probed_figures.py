"""The engine `probe`: what a step needs, from real steps on the GPU itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from oomph.planning.breakdown import items
from oomph.planning.estimate import Interval, Item
from oomph.planning.live.engine import Engine
from oomph.planning.live.figures import Figures, Inside
from oomph.planning.probe.peaks import Peaks

NAME = "probe"
_COUNTED = ("weights", "optimizer slots", "metrics and counters")


@dataclass(frozen=True)
class ProbedSteps:
    """The results of real steps on a GPU."""

    peaks: Peaks | None
    """The peak at any batch size; None if no step has succeeded."""
    measured: Collection[int]
    """The batch sizes that have just run on this machine."""
    ran_out: int | None
    """The smallest batch size that ran out of memory; None if none did."""
    limit: int
    """The most bytes that TensorFlow's allocator can get."""
    foreign: int
    """The bytes that the script holds on the GPU besides the training."""


class Probed:
    """The figures of a step that ran on a GPU.

    Args:
        shown: what was measured.
        base: the simulation of the same step.
        engine: the engine of the simulation, whose savers are scaled.
        is_xla: whether XLA compiled the steps, so that the simulation does not tell where the memory goes.
        inputs: returns the bytes of a batch with a given number of samples.
    """

    name = NAME

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
        if shown.ran_out is not None and batch >= shown.ran_out:  # it needs more than there is
            return Interval(*(max(size, least) for size in (found.low, found.expected, found.high)))
        if shown.peaks is None and self._is_xla:  # no smaller size has run, and the simulation does not see XLA
            return Interval(found.low, found.expected, max(found.high, least))
        return found

    def items(self, batch: int) -> tuple[Item, ...]:
        """The peak by kind of memory; the kinds add up to it. The last is what is neither counted nor simulated."""
        peak = self.peak(batch)
        known = [item for item in self._engine_items(batch) if item.name in _COUNTED]
        inside = [] if self._is_xla else [item for item in self._engine_items(batch) if item.name not in _COUNTED][:-1]
        if self._is_xla and self._inputs(batch):
            known.append(_item("input batch", self._inputs(batch), "counted"))
        if self._shown.foreign:
            known.append(_item("arrays given to fit, and what else the script holds", self._shown.foreign, "measured"))
        room = max(0, peak.expected - sum(item.size.expected for item in known))
        inside = _within(inside, room)
        left = room - sum(item.size.expected for item in inside)
        rest = Interval(
            max(0, left - (peak.expected - peak.low)), left, left + peak.high - peak.expected
        )  # fmt: skip
        name = "all else of the step" if self._is_xla else "workspaces of the libraries, slack of the allocator"
        return (*known, *inside, Item(name, rest, "measured" if batch in self.measured else "estimated"))

    def inside(self, batch: int, names: Collection[str]) -> Inside:
        return Inside() if self._is_xla else self._base.inside(batch, names)

    def of_changed(self, batch: int) -> Interval | None:
        return None

    def like(self, simulated: Interval, batch: int) -> Interval:
        part, share = self.peak(batch), simulated.expected / self._engine.at(batch).peak.expected
        return Interval(*(round(share * size) for size in (part.low, part.expected, part.high)))

    def _engine_items(self, batch: int) -> tuple[Item, ...]:
        return items(self._engine.program, self._engine.at(batch), self._engine.held)


def _item(name: str, size: int, basis: str) -> Item:
    return Item(name, Interval(size, size, size), basis)


def _within(simulated: list[Item], room: int) -> list[Item]:
    """The simulated items, all scaled down if together they exceed `room` bytes."""
    total = sum(item.size.expected for item in simulated)
    if total <= room:
        return simulated
    return [_item(item.name, item.size.expected * room // total, item.basis) for item in simulated]
