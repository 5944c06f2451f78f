"""Makes the plan of one training from its engine: estimates, the largest batch, the breakdown, the savers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from oomph.memory.breakdown import items, layers, timeline
from oomph.memory.estimate import Estimate, Interval, Item, Plan, Saver
from oomph.memory.gpu_costs import workspaces
from oomph.memory.largest import MOST, largest_batch
from oomph.memory.precision import warnings
from oomph.memory.verdict import ACCURACY, Verdict, notes, why_open
from oomph.tensorflow.planning.engine import Engine
from oomph.tensorflow.planning.open_sizes import OpenSizes
from oomph.tensorflow.planning.subject import Training

Savers = Callable[[int, int | None], tuple[Saver, ...]]
"""Plans the savers, given a batch size and the largest micro-batch that fits (None if unknown)."""


class Making:
    """One training on one device.

    Args:
        training: what is planned.
        engine: predicts its step.
        verdict: what may be said of the device.
        tell: told what is being done.
        savers: plans what would save memory.
        arrays: bytes of the arrays given to fit; they lie in the pool if the device is the CPU's.
        sizes: what is assumed of the sizes of a sample.
    """

    def __init__(
        self,
        training: Training,
        engine: Engine,
        verdict: Verdict,
        tell: Callable[[str], None],
        savers: Savers,
        arrays: int = 0,
        sizes: OpenSizes | None = None,
    ) -> None:
        self._sizes = sizes or OpenSizes()
        self._training, self._engine, self._verdict, self._tell, self._savers = training, engine, verdict, tell, savers
        self._device = device = verdict.device
        convolves = any(operation.kind.startswith("Conv") for operation in engine.program.operations)
        self._extras = workspaces(convolves) if device is not None and device.is_card else ()
        if device is not None and not device.is_gpu and arrays:
            self._extras += (Item("arrays given to fit", Interval(arrays, arrays, arrays), "counted"),)

    def plan(self, place: str, batches: list[int]) -> Plan:
        engine = self._engine
        estimates = []
        for size in batches:
            self._tell(f"estimating a batch of {size}")
            peak = self._peak(engine, size)
            estimates.append(Estimate(size, peak, self._verdict.fits(peak)))
        self._tell("looking for the largest batch that fits")
        most = self._largest(batches[0])
        part = self._largest(batches[0], beside=self._training.trainable)
        largest = engine.at(batches[-1])
        typical, own = largest.typical, self._training.batch
        return Plan(
            engine=engine.name,
            accuracy=ACCURACY[engine.name],
            subject=f"{self._training.words}{', XLA on a GPU' if self._verdict.is_xla else ''}",
            place=place,
            batch=own,
            estimates=tuple(estimates),
            curve=self._curve(max(batches[-1], most or 0, own)),
            device=self._device,
            max_batch=most,
            micro_batch=None if part is None else min(part, own),
            items=(*items(engine.program, largest, engine.held), *self._extras),
            layers=layers(engine.program, typical, self._training.layers),
            peak_operation=engine.program.operations[typical.at].name,
            timeline=timeline(engine.program, typical, engine.held.total),
            savers=tuple(self._on_the_device(saver) for saver in self._savers(batches[-1], part)),
            notes=(*self._remarks(), *notes(self._verdict, engine.unknown)),
            warnings=warnings(self._device, self._training.policies),
            why_open=why_open(self._verdict),
        )

    def _remarks(self) -> tuple[str, ...]:
        """What is assumed of the sizes of a sample, as sentences."""
        doubt, note = self._sizes.doubt, self._sizes.note
        return tuple(text for text in (doubt and f"{doubt[0].upper()}{doubt[1:]}.", note) if text)

    def _peak(self, engine: Engine, batch: int) -> Interval:
        return self._with_extras(engine.at(batch).peak)

    def _with_extras(self, peak: Interval) -> Interval:
        for item in self._extras:
            peak = peak + item.size
        return peak

    def _on_the_device(self, saver: Saver) -> Saver:
        """With what the device adds, as in the table."""
        return saver if saver.peak is None else replace(saver, peak=self._with_extras(saver.peak))

    def _largest(self, start: int, beside: int = 0) -> int | None:
        """The largest batch that fits beside so many bytes; None where that is not known."""
        device, only = self._device, self._engine.only
        if device is None or not self._verdict.can_say_yes:
            return None
        usable = device.usable - beside
        if only is not None:
            return only if self._peak(self._engine, only).high <= usable else 0
        return largest_batch(lambda batch: self._peak(self._engine, batch).high, usable, start)

    def _curve(self, most: int) -> tuple[tuple[int, Interval], ...]:
        """The peaks of rising batch sizes, up to the largest that is planned and to the end of the device's memory."""
        only = self._engine.only
        if only is not None:
            return ((only, self._peak(self._engine, only)),)
        curve, size = [], 1
        while size <= MOST:
            curve.append((size, self._peak(self._engine, size)))
            if size >= most and self._is_beyond(curve[-1][1]):
                break
            size *= 2
        return tuple(curve)

    def _is_beyond(self, peak: Interval) -> bool:
        """Whether the picture of a curve that ends here shows where the device's memory ends."""
        return self._device is None or self._engine.is_long or peak.expected > self._device.usable
