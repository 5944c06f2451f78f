"""Makes the plan of one training from its figures: estimates, the largest batch, the breakdown, the savers."""

from __future__ import annotations

from collections.abc import Callable

from oomph.memory.estimate import Estimate, Interval, Plan, Saver
from oomph.memory.largest import largest_batch
from oomph.memory.verdict import ACCURACY, Verdict, notes
from oomph.tensorflow.planning.figures import Figures
from oomph.tensorflow.planning.subject import Training

_CURVE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


Savers = Callable[[int, int | None], tuple[Saver, ...]]
"""Plans the savers, given a batch size and the largest micro-batch that fits (None if unknown)."""


class Making:
    """One training on one device.

    Args:
        training: what is planned.
        figures: what its step needs.
        verdict: what may be said of the device.
        tell: told what is being done.
        savers: plans what would save memory.
    """

    def __init__(
        self,
        training: Training,
        figures: Figures,
        verdict: Verdict,
        tell: Callable[[str], None],
        savers: Savers,
    ) -> None:
        self._training, self._figures, self._verdict, self._tell, self._savers = (
            training, figures, verdict, tell, savers
        )  # fmt: skip

    def plan(self, place: str, batches: list[int]) -> Plan:
        figures, last = self._figures, batches[-1]
        estimates = []
        for size in batches:
            self._tell(f"estimating a batch of {size}")
            peak = figures.peak(size)
            estimates.append(Estimate(size, peak, self._verdict.fits(peak)))
        self._tell("looking for the largest batch that fits")
        most = self._largest(batches[0])
        part = self._largest(batches[0], beside=self._training.trainable)
        inside, own = figures.inside(last, self._training.layers), self._training.batch
        return Plan(
            engine=figures.name,
            accuracy=ACCURACY[figures.name],
            subject=f"{self._training.words}{', XLA on a GPU' if self._verdict.is_xla else ''}",
            place=place,
            batch=own,
            estimates=tuple(estimates),
            curve=self._curve(max(last, most or 0, own)),
            device=self._verdict.device,
            max_batch=most,
            micro_batch=part,
            items=figures.items(last),
            layers=inside.layers,
            peak_operation=inside.operation,
            timeline=inside.timeline,
            savers=tuple(figures.saver(saver, last) for saver in self._savers(last, part)),
            notes=notes(self._verdict, figures.unknown),
        )

    def _largest(self, start: int, beside: int = 0) -> int | None:
        """The largest batch that fits beside so many bytes; None where that is not known."""
        device, only = self._verdict.device, self._figures.only
        if device is None or not self._verdict.can_say_yes:
            return None
        usable = device.usable - beside
        if only is not None:
            return only if self._figures.peak(only).high <= usable else 0
        return largest_batch(lambda batch: self._figures.peak(batch).high, usable, start)

    def _curve(self, most: int) -> tuple[tuple[int, Interval], ...]:
        only = self._figures.only
        sizes = [size for size in _CURVE if size < 2 * most] if only is None else [only]
        return tuple((size, self._figures.peak(size)) for size in sizes)
