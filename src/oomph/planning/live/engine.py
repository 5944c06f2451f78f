"""The `graph` and `dry-run` engines, which predict the memory of a compiled model's step at any batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oomph.errors import ExamineError
from oomph.planning.breakdown import Held
from oomph.planning.live import dry_run, samples
from oomph.planning.live.step_at_sizes import StepAtSizes
from oomph.planning.plan import Interval
from oomph.planning.prediction import Correction, PredictedStep, Prediction, between, correction, predict, widened
from oomph.planning.program import Program

_LONG = 8000
"""A program with at least this many operations, such as an unrolled loop, takes a long time to simulate."""


class Engine:
    """Predicts one training step. Caches its predictions, and never predicts less memory for a larger batch."""

    def __init__(
        self,
        program: Program,
        held: Held,
        fix: Correction | None,
        name: str,
        unknown: tuple[str, ...],
        only: int | None,
        doubt: str = "",
        identity: str = "",
        failed: str = "",
    ) -> None:
        self.program, self.held, self.name, self.unknown = program, held, name, unknown
        self.only = only
        """The only batch size that the model accepts; None if it accepts any."""
        self.doubt = doubt
        """A doubt about every prediction, as a sentence; empty if there is none.

        The cause is a failed real step, or a loop with an unknown number of iterations.
        """
        self.identity = identity
        """A digest by which another plan recognises this step; empty if there is none."""
        self.failed = failed
        """A sentence about a real step that failed with memory left, if no requested size ran; empty otherwise."""
        self._correction = fix
        self._known: dict[int, Prediction] = {}
        self._raw: dict[int, Prediction] = {}

    def at(self, batch: int) -> Prediction:
        """Predict the memory of a step of `batch` samples. Raises ExamineError if the model rejects that batch size."""
        if self.only not in (None, batch):
            raise ExamineError(f"this model's step can only be planned for its own batch of {self.only} samples")
        found = self._known.get(batch)
        if found is None:
            raw = self._predicted(batch)
            fix = self._correction
            peak = raw.peak if fix is None else fix.of(raw.peak, batch, self.held.total)
            is_assumed = bool(self.unknown) and batch > max(self.ran, default=0)
            peak = widened(peak, self.held.largest if fix is None else 0, is_assumed)
            found = self._known[batch] = Prediction(peak, raw.typical)
        return Prediction(self._monotone(batch, found.peak), found.typical)

    @property
    def ran(self) -> tuple[int, ...]:
        """The batch sizes at which real steps ran."""
        return () if self._correction is None else tuple(each.batch for each in self._correction.measured)

    @property
    def is_long(self) -> bool:
        """True if simulating each further batch size takes a long time."""
        return len(self.program.operations) >= _LONG

    def _predicted(self, batch: int) -> Prediction:
        """Predict without the correction by real steps; for a long program, interpolate between powers of two."""
        if not self.is_long or self.only is not None:
            return self._simulated_at(batch)
        small = 1 << (batch.bit_length() - 1)
        below, above = self._simulated_at(small), self._simulated_at(2 * small)
        return Prediction(between(below.peak, above.peak, batch / small - 1), below.typical)

    def _simulated_at(self, batch: int) -> Prediction:
        found = self._raw.get(batch)
        if found is None:
            found = self._raw[batch] = predict(PredictedStep(self.program, self.held.total), batch)
        return found

    def simulated(self, batch: int) -> Interval:
        """Return the predicted peak without the correction by real steps."""
        peak = self._predicted(batch).peak
        return widened(peak, self.held.largest, bool(self.unknown))

    def _monotone(self, batch: int, peak: Interval) -> Interval:
        """Raise each bound to at least the bound of any smaller batch, since simulations vary by chance."""
        smaller = [known.peak for size, known in self._known.items() if size < batch]
        bounds = zip(*((each.low, each.expected, each.high) for each in (*smaller, peak)), strict=True)
        low, expected, high = (max(values) for values in bounds)
        return Interval(low, expected, high)


def engine_for(
    model: Any,
    batch: Any,
    tell: Callable[[str], None],
    runs: bool = True,
    foreign: int | None = None,
    asked: Sequence[int] = (),
) -> Engine:
    """Trace the step of a built model, and run it at small sizes and at the requested ones if that is cheap.

    Args:
        model: a compiled model.
        batch: one batch, as passed to `train_step`.
        tell: shows the user what is currently happening.
        runs: True if real steps may run.
        foreign: the bytes on the device used for purposes other than training; None for everything now in use except
            the model.
        asked: the requested batch sizes.

    Raises:
        ExamineError: the step cannot be traced.
    """
    size = samples.size_of(batch)
    tell("tracing the training step")
    made = StepAtSizes(model, batch, size, tell)
    held = made.held
    if runs and dry_run.can_measure():
        made.run(max(0, dry_run.in_use() - held.total) if foreign is None else foreign, asked)
    only = size if len(made.traces) == 1 else None
    flat = made.traces[-1].flat
    unknown = tuple(dict.fromkeys([*made.failed, *flat.unknown]))
    name = "dry-run" if made.measured else "graph"
    failed = made.failed[0] if made.failed else ""
    ran = any(size in made.measured for size in asked)
    program = made.program()
    fix = correction(made.corrections(), program.convolves)
    return Engine(
        program, held, fix, name, unknown, only, failed or flat.guessed_loop, made.identity, "" if ran else failed
    )
