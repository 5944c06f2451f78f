"""The engines `graph` and `dry-run`: the step of a compiled model as something that can be asked for any batch size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oomph.errors import ExamineError
from oomph.memory.breakdown import Held
from oomph.memory.calibration import Correction, Measured, correction
from oomph.memory.estimate import Interval
from oomph.memory.prediction import Prediction, Step, predict, widened
from oomph.memory.program import Program
from oomph.recovery.posix.available_memory import available_bytes
from oomph.tensorflow.planning import dry_run, samples, subject
from oomph.tensorflow.planning.tracing import Traced, trace, traced_program
from oomph.tensorflow.state.optimizers import optimizers_of

_SIZES = (2, 8)
"""Batch sizes that are traced, and run if that is cheap."""
_MOST_OF_MEMORY = 0.5
"""A real step may take this share of the memory that is free."""


class Engine:
    """One training step. The predictions of a batch size are kept, and never fall as the batch grows."""

    def __init__(
        self,
        program: Program,
        held: Held,
        fix: Correction | None,
        name: str,
        unknown: tuple[str, ...],
        only: int | None,
    ) -> None:
        self.program, self.held, self.name, self.unknown = program, held, name, unknown
        self.only = only
        """The one batch size that the model takes; None if it takes any."""
        self._correction = fix
        self._known: dict[int, Prediction] = {}

    def at(self, batch: int) -> Prediction:
        """The memory of a step of this many samples. Raises ExamineError if the model does not take so many."""
        if self.only not in (None, batch):
            raise ExamineError(f"the step of this model can only be planned for its own batch of {self.only} samples")
        found = self._known.get(batch)
        if found is None:
            raw = predict(Step(self.program, self.held.total), batch)
            fix = self._correction
            peak = raw.peak if fix is None else fix.of(raw.peak, batch, self.held.total)
            peak = widened(peak, self.held.largest, bool(self.unknown))
            found = self._known[batch] = Prediction(peak, raw.typical)
        return Prediction(self._monotone(batch, found.peak), found.typical)

    def simulated(self, batch: int) -> Interval:
        """The peak without the correction by real steps."""
        peak = predict(Step(self.program, self.held.total), batch).peak
        return widened(peak, self.held.largest, bool(self.unknown))

    def _monotone(self, batch: int, peak: Interval) -> Interval:
        """Not below what a smaller batch needs: chance in the simulation may say so."""
        smaller = [known.peak for size, known in self._known.items() if size < batch]
        bounds = zip(*((each.low, each.expected, each.high) for each in (*smaller, peak)), strict=True)
        low, expected, high = (max(values) for values in bounds)
        return Interval(low, expected, high)


def engine_for(model: Any, batch: Any, tell: Callable[[str], None], runs: bool = True) -> Engine:
    """Trace the step of a built model, and run it at small sizes where that is cheap.

    Args:
        model: a compiled model.
        batch: one batch as `train_step` takes it.
        tell: what is being done.
        runs: whether real steps may run.

    Raises:
        ExamineError: the step cannot be traced.
    """
    spec, size = samples.specification(batch), samples.size_of(batch)
    tell("tracing the training step")
    traces = _traces(model, spec, size)
    held = subject.held_by(model)
    names = {optimizer.name for optimizer in optimizers_of(model)}
    program = traced_program(traces[0], traces[-1], lambda name: name.split("/", 1)[0] in names)
    if program is None:
        traces = [trace(model, spec, size, size)]
        program = traced_program(traces[0], traces[0], lambda name: name.split("/", 1)[0] in names)
        assert program is not None, "a trace has the operations that it has"
    only = size if len(traces) == 1 else None
    measured = _measured(traces, batch, size, program, held, tell) if runs else []
    unknown = tuple(dict.fromkeys(traces[-1].flat.unknown))
    return Engine(program, held, correction(measured), "dry-run" if measured else "graph", unknown, only)


def _traces(model: Any, spec: Any, size: int) -> list[Traced]:
    """Traces at two sizes; at the batch's own size only, if the model takes no other."""
    try:
        return [trace(model, spec, size, batch) for batch in _SIZES]
    except ExamineError:
        return [trace(model, spec, size, size)]


def _measured(
    traces: list[Traced], batch: Any, size: int, program: Program, held: Held, tell: Callable[[str], None]
) -> list[Measured]:
    found = []
    for traced in traces:
        raw = predict(Step(program, held.total), traced.batch).peak
        if raw.high > _MOST_OF_MEMORY * (available_bytes() or 0):
            break
        tell(f"running a few steps of {traced.batch} samples on {dry_run.device()}")
        peaks = list(dry_run.measured_peaks(traced, samples.repeated(batch, size, traced.batch), held.total))
        if not peaks:
            break
        found.append(Measured(traced.batch, peaks, raw.expected))
    return found
