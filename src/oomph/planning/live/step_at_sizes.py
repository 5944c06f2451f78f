"""Traces a training step at a few batch sizes, and runs it at these and other sizes while that is cheap."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from oomph.errors import ExamineError
from oomph.keras_bridge.models import optimizers_of
from oomph.planning.live import dry_run, samples, subject
from oomph.planning.live.tracing import Traced, is_update_of, trace, traced_program
from oomph.planning.prediction import MeasuredSteps, PredictedStep, predict
from oomph.planning.program import Program
from oomph.process.available_memory import available_bytes

_SIZES = (2, 8)
"""The batch sizes to trace, and to run if there is enough memory."""
_TIMES = 4
"""The factor between a batch size that runs and the next larger one."""
_CHEAP_SECONDS = 3.0
"""A further size runs if its step should take at most this many seconds."""
_OWN_SECONDS = 30.0
"""A requested size runs if its step should take at most this many seconds."""
_MOST_SAMPLES = 8192
_ORDERS = 3
"""The number of orders of operations in which a requested size runs, as far as `_ORDER_SECONDS` allows."""
_ORDER_SECONDS = 20.0
"""The total time, in seconds, for running requested sizes in further orders."""
_MOST_OF_MEMORY = 0.5
"""The share of free memory that a real step may use."""


class StepAtSizes:
    """The traces of a step, and the results of running it."""

    def __init__(self, model: Any, batch: Any, size: int, tell: Callable[[str], None]) -> None:
        self._model, self._batch, self._size, self._tell = model, batch, size, tell
        self._spec = samples.specification(batch)
        self._is_update = is_update_of(optimizers_of(model))
        self.measured: dict[int, list[tuple[int, ...]]] = {}
        """The peaks of the steps at each batch size that ran, for each order of operations."""
        self.failed: list[str] = []
        """The real steps that failed for a reason other than memory, one sentence each."""
        self.last, self.seconds = 1, 0.0
        """The batch size that ran last, and the duration of its shortest step in seconds."""
        self._took = 0.0
        """The duration of the last run in seconds, including the optimization of its graph."""
        self._asked: Sequence[int] = ()
        self._foreign = 0
        try:
            self.traces = [self._trace(size) for size in _SIZES]
        except ExamineError:
            self.traces = [self._trace(size)]  # the model does not accept any other batch size
        if traced_program(self.traces, self._is_update) is None:
            self.traces = [self._trace(size)]
        self.held = subject.held_by(model)  # the first trace creates whatever was missing
        self.identity = identity_of(self.traces)

    def program(self) -> Program:
        """Return the step as a program for any batch size."""
        program = traced_program(self.traces, self._is_update)
        assert program is not None, "a trace always yields a program"
        return program

    def run(self, foreign: int, asked: Sequence[int] = ()) -> None:
        """Run small sizes, then the requested ones, each in a few orders of its operations.

        The sizes increase: after a large step, the pool would serve small tensors from its large free chunks.
        """
        only = self.traces[0].batch if len(self.traces) == 1 else None
        asked = [size for size in sorted(asked) if only in (None, size)]
        self._asked, self._foreign = asked, foreign
        last = self._run_small()
        if self.measured:
            for size in asked:
                self._run_asked(size)
            if asked and last is not None and last.batch == max(self.measured) and last.batch not in asked:
                self._run_in_other_orders(last)  # larger batches are judged by this one

    def _run_small(self) -> Traced | None:
        """Run steps of the traced sizes, and of larger ones while they are cheap.

        A requested size runs before the next larger size. Returns the last traced step that ran.
        """
        program, seconds = self.program(), 0.0
        last: Traced | None = None
        for traced in self.traces:
            self._run_below(traced.batch)
            if not self._has_room(program, traced.batch):
                return last
            seconds = self._run_in_orders(traced)
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
            seconds = max(seconds, self._run_in_orders(larger))
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
        """Run a requested size, unless it takes too long or too much memory."""
        each = self.seconds / self.last
        if self.failed or size in self.measured or each * size > _OWN_SECONDS:
            return
        if self._has_room(self.program(), size):
            try:
                traced = self._trace(size)
            except ExamineError:
                return
            self._run_in_orders(traced)

    def _run_in_orders(self, traced: Traced) -> float:
        """Run a step, in several orders if its size was requested.

        Returns the duration, in seconds, of the shortest step in the first order; 0 if none succeeded.
        """
        seconds = self._run(traced)
        if seconds and traced.batch in self._asked:
            self._run_in_other_orders(traced)
        return seconds

    def _run_in_other_orders(self, traced: Traced) -> None:
        """Run a step again in other orders of its operations, while time allows."""
        until = time.monotonic() + _ORDER_SECONDS / (len(self._asked) + 1)
        for _ in range(_ORDERS - 1):
            if self.failed or time.monotonic() + self._took > until:
                return
            self._run(traced.in_another_order())

    def corrections(self) -> list[MeasuredSteps]:
        """Return the real steps at each batch size, with the peak that the final program predicts for that size."""
        program = self.program()
        return [
            MeasuredSteps(batch, orders, predict(PredictedStep(program, self.held.total), batch).peak.expected)
            for batch, orders in sorted(self.measured.items())
        ]

    def _with(self, larger: Traced) -> list[Traced]:
        """Return the traces with the larger one added, unless it is a different step."""
        traces = [*self.traces, larger]
        return traces if traced_program(traces, self._is_update) is not None else self.traces

    def _trace(self, batch: int) -> Traced:
        return trace(self._model, self._spec, self._size, batch)

    def _has_room(self, program: Program, batch: int) -> bool:
        high = predict(PredictedStep(program, self.held.total), batch).peak.high
        return high <= _MOST_OF_MEMORY * (available_bytes() or 0)

    def _run(self, traced: Traced) -> float:
        """Run steps of one size. Returns the duration, in seconds, of the shortest step; 0 if none succeeded."""
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


# -- recognising a step -----------------------------------------------------------------------------------------------


def identity_of(traces: Sequence[Traced]) -> str:
    """Return a digest of what a step computes: the types of its operations, and the sizes of their outputs.

    Weights, optimizer, precision and data shapes together determine the operations and their sizes. A model with
    different image sizes, or in float16, is therefore a different step.
    """
    told = [
        [trace.batch, sorted([made.kind, *(trace.flat.sizes[tensor] for tensor in made.outputs)] for made in
        trace.flat.operations)] for trace in traces
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
