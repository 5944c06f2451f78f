"""Creates a plan from the estimates for a training call: the largest batch, the breakdown, the savers."""

from __future__ import annotations

from collections.abc import Callable

from oomph.planning.batch_sizes import MOST, largest_batch
from oomph.planning.live.figures import Figures
from oomph.planning.live.subject import OpenSizes, PlannedTraining
from oomph.planning.plan import ALONE, Estimate, Interval, Plan, PlannedReplicas, Saver
from oomph.planning.verdict import ACCURACY, FittingVerdict, notes, warnings, why_open

Savers = Callable[[int, int | None, Figures], tuple[Saver, ...]]
"""Plans the savers, given a batch size, the largest micro-batch that fits (None if unknown), and the estimates."""


class Making:
    """Creates the plan for one training call on one device.

    Args:
        training: the training to plan.
        figures: the memory that its step needs.
        verdict: the verdict on whether it fits.
        tell: called with a description of the current activity.
        savers: plans the ways to save memory.
        sizes: the assumptions about sample sizes.
        replicas: the replicas that share each batch.
        note: anything else that the estimates leave out, as a sentence; empty if there is nothing.
        refused: returns the reason why a run would not split a batch, empty if it would; called after all estimates.
    """

    def __init__(
        self,
        training: PlannedTraining,
        figures: Figures,
        verdict: FittingVerdict,
        tell: Callable[[str], None],
        savers: Savers,
        sizes: OpenSizes | None = None,
        replicas: PlannedReplicas = ALONE,
        note: str = "",
        refused: Callable[[], str] = str,
    ) -> None:
        self._training, self._figures, self._verdict, self._tell, self._savers = (
            training, figures, verdict, tell, savers
        )  # fmt: skip
        self._sizes, self._replicas, self._note, self._refused = sizes or OpenSizes(), replicas, note, refused

    def plan(self, place: str, batches: list[int]) -> Plan:
        figures, last = self._figures, batches[-1]
        estimates = []
        for size in batches:
            self._tell(f"estimating a batch of {size}")
            peak = figures.peak(size)
            estimates.append(Estimate(size, peak, self._verdict.fits(peak)))
        self._tell("looking for the largest batch that fits")
        most = self._largest(batches[0])
        beside_sums = self._largest(batches[0], beside=self._training.trainable)
        part = None if beside_sums is None else beside_sums // self._replicas.count
        if not self._verdict.failed and self._refused():
            part = None
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
            micro_batch=None if part is None else min(part, self._replicas.share(own)),
            items=figures.items(last),
            layers=inside.layers,
            peak_operation=inside.operation,
            timeline=inside.timeline,
            savers=() if self._verdict.failed else self._savers(last, part, figures),
            notes=(*self._remarks(), *notes(self._verdict, figures.unknown, estimates)),
            warnings=warnings(self._verdict.device, self._training.policies),
            replicas=self._replicas.count,
            why_open=why_open(self._verdict),
            measured=tuple(figures.measured),
        )

    def _remarks(self) -> tuple[str, ...]:
        """Return the assumptions about sample sizes and replicas, as sentences."""
        doubt, note = self._sizes.doubt, self._sizes.note
        return tuple(text for text in (doubt and f"{doubt[0].upper()}{doubt[1:]}.", note, self._note) if text)

    def _largest(self, start: int, beside: int = 0) -> int | None:
        """Return the largest batch that fits alongside `beside` bytes of other memory, or None if unknown."""
        device, only = self._verdict.device, self._figures.only
        if device is None or not self._verdict.can_say_yes:
            return None
        usable = device.usable - beside
        if only is not None:
            return only if self._figures.peak(only).high <= usable else 0
        replicas = self._replicas
        share = largest_batch(
            lambda size: self._figures.peak(replicas.batch_of(size)).high, usable, replicas.share(start)
        )
        return replicas.batch_of(share)

    def _curve(self, most: int) -> tuple[tuple[int, Interval], ...]:
        """Return the peaks at increasing batch sizes, up to at least `most` samples and the device's memory limit."""
        figures = self._figures
        if figures.only is not None:
            return ((figures.only, figures.peak(figures.only)),)
        curve, size = [], self._replicas.batch_of(1)
        while size <= MOST:
            curve.append((size, figures.peak(size)))
            if size >= most and self._is_beyond(curve[-1][1]):
                break
            size *= 2
        return tuple(curve)

    def _is_beyond(self, peak: Interval) -> bool:
        """True if a curve that ends at this peak shows where the device runs out of memory."""
        device = self._verdict.device
        return device is None or self._figures.is_long or peak.expected > device.usable
