"""The engines `graph` and `dry-run`: the step of a compiled model as something that can be asked for any batch size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from oomph.errors import ExamineError
from oomph.memory.breakdown import Held
from oomph.memory.calibration import Correction, Measured, correction
from oomph.memory.estimate import Interval
from oomph.memory.prediction import Prediction, Step, between, predict, widened
from oomph.memory.program import Program
from oomph.recovery.posix.available_memory import available_bytes
from oomph.tensorflow.planning import dry_run, samples, subject
from oomph.tensorflow.planning.identity import identity_of
from oomph.tensorflow.planning.tracing import Traced, trace, traced_program
from oomph.tensorflow.planning.updates import is_update_of
from oomph.tensorflow.state.optimizers import optimizers_of

_SIZES = (2, 8)
"""Batch sizes that are traced, and run if there is room."""
_TIMES = 4
"""Each further size that runs is this many times the one before it."""
_CHEAP_SECONDS = 3.0
"""A further size runs if its step should take no longer than this."""
_OWN_SECONDS = 30.0
"""One of the sizes that a plan is for runs if its step should take no longer than this."""
_MOST_SAMPLES = 8192
_ORDERS = 3
"""In so many orders of its operations a step runs that the plan is for, while all that takes no longer than:"""
_ORDER_SECONDS = 20.0
_LONG = 8000
"""A program of so many operations takes long to simulate: unrolled loops."""
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
        doubt: str = "",
        identity: str = "",
    ) -> None:
        self.program, self.held, self.name, self.unknown = program, held, name, unknown
        self.only = only
        """The one batch size that the model takes; None if it takes any."""
        self.doubt = doubt
        """A real step that failed, or a loop whose graph does not say how often it runs: either may change everything;
        one sentence, empty if there is none."""
        self.identity = identity
        """A digest by which another plan recognises this step; empty if it has none."""
        self._correction = fix
        self._known: dict[int, Prediction] = {}
        self._raw: dict[int, Prediction] = {}

    def at(self, batch: int) -> Prediction:
        """The memory of a step of this many samples. Raises ExamineError if the model does not take so many."""
        if self.only not in (None, batch):
            raise ExamineError(f"the step of this model can only be planned for its own batch of {self.only} samples")
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
        """The batch sizes of which real steps ran."""
        return () if self._correction is None else tuple(each.batch for each in self._correction.measured)

    @property
    def is_long(self) -> bool:
        """Whether each further batch size takes long to simulate."""
        return len(self.program.operations) >= _LONG

    def _predicted(self, batch: int) -> Prediction:
        """The uncorrected prediction; for a long program interpolated between powers of two."""
        if not self.is_long or self.only is not None:
            return self._simulated_at(batch)
        small = 1 << (batch.bit_length() - 1)
        below, above = self._simulated_at(small), self._simulated_at(2 * small)
        return Prediction(between(below.peak, above.peak, batch / small - 1), below.typical)

    def _simulated_at(self, batch: int) -> Prediction:
        found = self._raw.get(batch)
        if found is None:
            found = self._raw[batch] = predict(Step(self.program, self.held.total), batch)
        return found

    def simulated(self, batch: int) -> Interval:
        """The peak without the correction by real steps."""
        peak = self._predicted(batch).peak
        return widened(peak, self.held.largest, bool(self.unknown))

    def _monotone(self, batch: int, peak: Interval) -> Interval:
        """Not below what a smaller batch needs: chance in the simulation may say so."""
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
    """Trace the step of a built model, and run it at small sizes, and at those of the plan, where that is cheap.

    Args:
        model: a compiled model.
        batch: one batch as `train_step` takes it.
        tell: what is being done.
        runs: whether real steps may run.
        foreign: bytes on the device that do not belong to the training; None: all that the model does not hold now.
        asked: the batch sizes that the plan is for.

    Raises:
        ExamineError: the step cannot be traced.
    """
    size = samples.size_of(batch)
    tell("tracing the training step")
    made = _Made(model, batch, size, tell)
    held = made.held
    if runs and dry_run.can_measure():
        made.run(max(0, dry_run.in_use() - held.total) if foreign is None else foreign, asked)
    only = size if len(made.traces) == 1 else None
    flat = made.traces[-1].flat
    unknown = tuple(dict.fromkeys([*made.failed, *flat.unknown]))
    name = "dry-run" if made.measured else "graph"
    doubt = made.failed[0] if made.failed else flat.guessed_loop
    program = made.program()
    convolves = any(operation.kind.startswith("Conv") for operation in program.operations)
    fix = correction(made.corrections(), convolves)
    return Engine(program, held, fix, name, unknown, only, doubt, made.identity)


class _Made:
    """The traces of a step, and what real steps have shown."""

    def __init__(self, model: Any, batch: Any, size: int, tell: Callable[[str], None]) -> None:
        self._model, self._batch, self._size, self._tell = model, batch, size, tell
        self._spec = samples.specification(batch)
        self._is_update = is_update_of(optimizers_of(model))
        self.measured: dict[int, list[tuple[int, ...]]] = {}
        """Batch sizes that ran, and the peaks of their steps for each order of operations."""
        self.failed: list[str] = []
        """Real steps that failed for a reason other than memory, one sentence each."""
        self.last, self.seconds = 1, 0.0
        """The size that ran last, and its shortest step."""
        self._took = 0.0
        """The seconds of all that ran last, the optimizing of its graph included."""
        self._asked: Sequence[int] = ()
        self._foreign = 0
        try:
            self.traces = [self._trace(size) for size in _SIZES]
        except ExamineError:
            self.traces = [self._trace(size)]  # the model takes no other batch size
        if traced_program(self.traces, self._is_update) is None:
            self.traces = [self._trace(size)]
        self.held = subject.held_by(model)  # the first trace creates what was missing
        self.identity = identity_of(self.traces)

    def program(self) -> Program:
        """The step for any batch size."""
        program = traced_program(self.traces, self._is_update)
        assert program is not None, "a trace has the operations that it has"
        return program

    def run(self, foreign: int, asked: Sequence[int] = ()) -> None:
        """Run steps of small sizes and of those that the plan is for, each in a few orders of its operations.

        They run by rising size: after a large step the pool has large free pieces, and gives those for small tensors.
        """
        asked = sorted(asked) if len(self.traces) > 1 else []
        self._asked, self._foreign = asked, foreign
        last = self._run_small()
        if self.measured:
            for size in asked:
                self._run_asked(size)
            if last is not None and last.batch == max(self.measured) and last.batch not in asked:
                self._run_in_other_orders(last)

    def _run_small(self) -> Traced | None:
        """Run steps of the sizes that were traced, and of larger ones while they are cheap; before each, what is asked
        for and smaller. Returns the last one that ran."""
        program, seconds = self.program(), 0.0
        last: Traced | None = None
        for traced in self.traces:
            self._run_below(traced.batch)
            if not self._has_room(program, traced.batch):
                return last
            seconds = self._run(traced)
            if not seconds:
                return last
            last = traced
        if len(self.traces) == 1:
            return last
        batch, larger = self.traces[-1].batch, None
        while seconds * _TIMES <= _CHEAP_SECONDS and batch * _TIMES <= _MOST_SAMPLES:
            batch *= _TIMES
            self._run_below(batch)
            if not self._has_room(program, batch):
                break
            began = time.monotonic()
            try:
                larger = self._trace(batch)
            except ExamineError:
                break
            if time.monotonic() - began > _CHEAP_SECONDS:
                seconds = _CHEAP_SECONDS
            seconds = max(seconds, self._run(larger))
            if not seconds:
                break
        if larger is not None:
            self.traces = self._with(larger)
        return larger or last

    def _run_below(self, size: int) -> None:
        for smaller in self._asked:
            if smaller < size:
                self._run_asked(smaller)

    def _run_asked(self, size: int) -> None:
        """Run steps of a size that the plan is for, unless that takes too long or too much memory."""
        each = self.seconds / self.last
        if self.failed or size in self.measured or each * size > _OWN_SECONDS:
            return
        if self._has_room(self.program(), size):
            try:
                traced = self._trace(size)
            except ExamineError:
                return
            if self._run(traced):
                self._run_in_other_orders(traced)

    def _run_in_other_orders(self, traced: Traced) -> None:
        """Run a step again whose first run was cheap."""
        until = time.monotonic() + _ORDER_SECONDS / (len(self._asked) + 1)
        for _ in range(_ORDERS - 1):
            if self.failed or time.monotonic() + self._took > until:
                return
            self._run(traced.in_another_order())

    def corrections(self) -> list[Measured]:
        """The real steps, each with the prediction of the final program."""
        program = self.program()
        return [
            Measured(batch, orders, predict(Step(program, self.held.total), batch).peak.expected)
            for batch, orders in sorted(self.measured.items())
        ]

    def _with(self, larger: Traced) -> list[Traced]:
        """The traces with a larger one, if it is the same step."""
        traces = [*self.traces, larger]
        return traces if traced_program(traces, self._is_update) is not None else self.traces

    def _trace(self, batch: int) -> Traced:
        return trace(self._model, self._spec, self._size, batch)

    def _has_room(self, program: Program, batch: int) -> bool:
        high = predict(Step(program, self.held.total), batch).peak.high
        return high <= _MOST_OF_MEMORY * (available_bytes() or 0)

    def _run(self, traced: Traced) -> float:
        """Run steps of one size; returns the seconds of the shortest, 0 if none succeeded."""
        self._tell(f"running a few steps of {traced.batch} samples on {dry_run.device()}")
        began = time.monotonic()
        ran = dry_run.run(traced, samples.repeated(self._batch, self._size, traced.batch), self._foreign)
        self._took = time.monotonic() - began
        if ran.failed:
            self.failed.append(f"a real step of {traced.batch} samples failed: {ran.failed}")
        if not ran.peaks:
            return 0.0
        self.measured.setdefault(traced.batch, []).append(ran.peaks)
        self.last, self.seconds = traced.batch, ran.seconds
        return ran.seconds
