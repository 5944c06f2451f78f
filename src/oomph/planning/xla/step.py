"""The memory of a training step that XLA has compiled, as items and as a peak. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from oomph.planning.breakdown import Held
from oomph.planning.gpu_costs import xla_workspaces
from oomph.planning.peaks import XlaGrowth
from oomph.planning.plan import Interval, Item, exactly, together
from oomph.planning.xla.compiling import Compiled

LOWER, UPPER = 0.9, 1.1
"""The bounds as multiples of the compiled size: TensorFlow's own XLA is another version, and its allocator may leave
gaps. Assumed: neither was measured on a GPU."""


@dataclass(frozen=True)
class CompiledStep:
    """The memory at any batch size of a step that was compiled at a few sizes."""

    compiled: Mapping[int, Compiled]
    """The memory that XLA assigned, by batch size; at least one entry."""
    held: Held
    inputs: Callable[[int], int]
    """Returns the bytes of a batch with a given number of samples."""
    convolution: Callable[[int], int]
    """Returns the bytes that the largest convolution reads and writes at a given size; 0 if there is none."""

    def peak(self, batch: int) -> Interval:
        """The peak of a step with this many samples."""
        return _together(self.items(batch))

    def peak_of_share(self, batch: int, share: float) -> Interval:
        """The peak of a step that takes this share of the memory, and needs the same workspaces."""
        whole = _together(self._without_workspaces(batch))
        return whole.scaled(share) + _together(self._workspaces(batch))

    def items(self, batch: int) -> tuple[Item, ...]:
        """The parts of the peak, which add up to it."""
        return (*self._without_workspaces(batch), *self._workspaces(batch))

    def _workspaces(self, batch: int) -> tuple[Item, ...]:
        return xla_workspaces(self.convolution(batch))

    def _without_workspaces(self, batch: int) -> tuple[Item, ...]:
        waiting = self.inputs(batch)
        return (
            *self.held.items(),
            Item("input batch", exactly(waiting), "counted"),
            Item("buffers that XLA assigns", self._buffers(batch), "compiled"),
            Item("input batches that wait", Interval(0, waiting, 2 * waiting), "assumed"),
        )

    def _buffers(self, batch: int) -> Interval:
        """The memory of XLA's buffers, with room for a copy of the largest variable that the first step may make."""
        size = self.growth.at(batch)
        return Interval(round(LOWER * size.low), size.expected, round(UPPER * size.high) + self.held.largest)

    @cached_property
    def growth(self) -> XlaGrowth:
        """The growth of the memory besides held variables and inputs."""
        variables = self.held.total
        return XlaGrowth(
            {size: max(0, each.total - variables - self.inputs(size)) for size, each in self.compiled.items()}
        )


def _together(items: Iterable[Item]) -> Interval:
    return together(item.size for item in items)
