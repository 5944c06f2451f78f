"""Meter: writes the measurements of the training process to its board, the expensive ones at most once a second."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from oomph.monitor.board import TrainingBoard
from oomph.monitor.live import all_reduce_time
from oomph.monitor.live.counting import Counting
from oomph.monitor.live.input_wait import CountedWait, InputWait
from oomph.monitor.live.pacing import Pacing
from oomph.monitor.live.readings import FullestDevice, Losses, WeightLooks

_EVERY_SECONDS = 1.0
_LONG_EPOCH_STEPS, _NOTED_SHARE = 200, 0.02
"""The number of steps, or the share of the fit's time so far, after which to record the memory in use within an epoch,
since a leak may use up all memory within the first epochs."""
_NOTHING = float("nan")
Method = TypeVar("Method", bound=Callable[..., None])


def _fail_open(method: Method) -> Method:
    """Wrap a method so that any error stops the measuring, but not the training."""

    @functools.wraps(method)
    def never_raises(self: Meter, *args: Any, **kwargs: Any) -> None:
        if self.is_off or os.getpid() != self._pid:  # a forked process has its own training
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.is_off = True
            self.wait.stop()
            self._tell(f"{type(error).__name__}: {error}; training is no longer being measured")

    return never_raises  # type: ignore[return-value]


class Meter:
    """Measures the fits of this process, one after another. Its methods never raise.

    The first execution in a fit is not timed, since it traces, compiles, and fills the pipeline's buffers.

    Args:
        board: receives the values; None turns measuring off.
        tell: a function that is called with the reason if measuring stops.
        pacing: records the pace of this process, if it is one of several workers.
    """

    def __init__(
        self,
        board: TrainingBoard | None,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
        pacing: Pacing | None = None,
    ) -> None:
        self._board: Any = board
        self._tell, self._clock, self._pid, self._pacing = tell, clock, os.getpid(), pacing
        self.is_off = board is None
        """True if measuring is turned off or has stopped."""
        self.wait = InputWait()
        self._counted, self._reduced = CountedWait(self.wait.read), CountedWait(all_reduce_time.seconds)
        self._looks = WeightLooks(clock)
        self._counting = Counting(clock)
        self._memory: FullestDevice | None = None
        self._model: Any = None
        self._losses: Losses | None = None
        self._examples = 0.0
        """The number of samples in earlier fits."""
        self._steps, self._step_of_epoch, self._epoch = 0, 0, 0
        self._step_seconds, self._timed_steps = 0.0, 0
        self._noted_at = 0
        """The step of the epoch at which the memory in use was last recorded."""
        self._last = self._due = self._begun_at = self._noted = clock()
        self._is_begun, self._is_first = False, True
        """True if a fit has started, and true if its first execution is still to come."""
        self._paused_at: float | None = None

    @property
    def is_measuring(self) -> bool:
        """True if a fit or loop is running."""
        return self._is_begun

    @_fail_open
    def listen(self) -> None:
        """Start measuring in functions that this thread traces, even before a fit has started."""
        self.wait.listen()
        if self._pacing is not None:
            all_reduce_time.listen()

    @_fail_open
    def begin(self, model: Any = None, epochs: int | None = None) -> None:
        """Start a fit, or a loop, in which case there is no model."""
        self._is_begun = self._is_first = True
        self._begun_at = self._noted = self._clock()
        self._model, self._losses = model, None if model is None else Losses(model)
        self._paused_at = None
        self.wait.listen()
        self._write({"epochs": epochs})

    @_fail_open
    def begin_epoch(self, number: int, step: int = 0, steps_per_epoch: int | None = None) -> None:
        """Start an epoch.

        Args:
            number: the number of the epoch, counted from 0.
            step: the number of steps of the epoch that are already completed.
            steps_per_epoch: the number of steps in an epoch, if known.
        """
        self._epoch, self._last = number + 1, self._clock()
        self._step_of_epoch = self._noted_at = step
        if self._losses is not None:
            self._losses.begin_epoch()
        self._write({"epoch": number + 1, "step_of_epoch": step, "steps_per_epoch": steps_per_epoch})

    def count(self, steps: int = 1, logs: Any = None) -> None:
        """Count another execution of one or more steps."""
        self.stepped(self._step_of_epoch + steps, self._steps + steps, logs)

    @_fail_open
    def stepped(self, step_of_epoch: int, steps: int, logs: Any = None, micro_batch: int | None = None) -> None:
        """Record an execution of one or more steps.

        Args:
            step_of_epoch: the number of steps completed in this epoch.
            steps: the total number of steps completed.
            logs: the logs that the step returned.
            micro_batch: the size of its micro-batches, or None if its batch was not divided.
        """
        now = self._clock()
        taken = steps - self._steps
        self._step_of_epoch, self._steps = step_of_epoch, steps
        if self._is_first:
            self._is_first = False
            self._counted.leave_out_what_came()
            self._reduced.leave_out_what_came()
        else:
            self._step_seconds += now - self._last
            self._timed_steps += taken
        self._last = now
        if now >= self._due:
            self._due = now + _EVERY_SECONDS
            self._read_losses(logs)
            self._write_counts()
            self._ask(micro_batch)

    @_fail_open
    def count_examples(self, examples: int) -> None:
        """Add samples processed by a loop. Models count their own samples."""
        self._examples += examples

    @_fail_open
    def pause(self) -> None:
        """Stop counting while an evaluation runs within the fit."""
        self._read_losses(None)
        self._write_counts()
        if self._losses is not None:
            self._losses.end_epoch()  # the evaluation reuses Keras' sums
        self._paused_at = self._clock()
        self._counted.pause()
        self._reduced.pause()

    @_fail_open
    def go_on(self) -> None:
        """Resume counting."""
        if self._paused_at is not None:
            self._last += self._clock() - self._paused_at
            self._paused_at = None
            self._counted.go_on()
            self._reduced.go_on()

    @_fail_open
    def end_epoch(self) -> None:
        """End an epoch and its validation. Memory still in use at this point is kept across epochs."""
        self._read_losses(None)
        self._write_counts()
        self._note_memory_in_use(self._epoch)

    @_fail_open
    def end(self) -> None:
        """End the fit."""
        self._examples += 0.0 if self._losses is None else self._losses.examples
        self._model = self._losses = None
        self._is_begun = False
        self._write({"epochs": None, "steps_per_epoch": None, "micro_batch": None})

    def _ask(self, micro_batch: int | None) -> None:
        memory = self._allocator().values()
        self._write({"micro_batch": micro_batch, **memory})
        if self._pacing is not None:
            wait, reduced = (each.seconds if each.is_measured else _NOTHING for each in (self._counted, self._reduced))
            self._pacing.write(self._steps, self._step_seconds, wait, reduced, memory)
        held, limit = memory["allocator_in_use_bytes"], memory["allocator_limit_bytes"]
        census = self._counting.census(self._steps, self._epoch, held, limit)
        if census is not None:
            self._board.write_census(census)
        found = None if self._model is None else self._looks.look(self._model.trainable_variables)
        if found is not None:
            self._write({"not_finite_weights": found})
        wait = max(_EVERY_SECONDS, _NOTED_SHARE * (self._last - self._begun_at))
        is_due = self._last - self._noted >= wait
        if is_due or self._step_of_epoch - self._noted_at >= _LONG_EPOCH_STEPS:
            self._note_memory_in_use()

    def _read_losses(self, logs: Any) -> None:
        if self._losses is not None:
            self._write({key: value for key, value in self._losses.values(logs).items() if value is not None})

    def _write_counts(self) -> None:
        """Write related values together: the steps, the time they took, and the part of it spent waiting."""
        counts = {
            "steps_total": self._steps,
            "step_of_epoch": self._step_of_epoch,
            "step_seconds_total": self._step_seconds,
        }
        if self._counted.read():
            counts |= {"input_wait_seconds_total": self._counted.seconds, "input_batches_total": self._timed_steps}
        if self._reduced.read():
            counts["all_reduce_seconds_total"] = self._reduced.seconds
        examples = self._examples + (0.0 if self._losses is None else self._losses.examples)
        self._write(counts | ({"examples_total": examples} if examples else {}))
        self._board.beat()

    def _note_memory_in_use(self, ended_epoch: int = 0) -> None:
        self._noted_at, self._noted = self._step_of_epoch, self._last
        in_use = self._allocator().in_use_bytes()
        if in_use is not None:
            self._board.add_baseline(self._steps, in_use, ended_epoch)

    def _allocator(self) -> FullestDevice:
        if self._memory is None:
            self._memory = FullestDevice()  # not earlier, since it initialises the devices
        return self._memory

    def _write(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            self._board.write(key, _NOTHING if value is None else value)


class MeasuredStep:
    """Replaces `model.train_function` while a fit is being measured.

    A batch callback would see less, since Keras calls it from a different thread, after waiting for the device.
    """

    def __init__(self, model: Any, step: Any, meter: Meter) -> None:
        self._model, self.step, self._meter = model, step, meter

    def __call__(self, iterator: Any) -> Any:
        logs = self.step(iterator)
        self._meter.count(self._model.steps_per_execution, logs)
        return logs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.step, name)
