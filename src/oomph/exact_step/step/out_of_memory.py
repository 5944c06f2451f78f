"""Tries computations that may run out of memory: frees memory after a failure, and searches for a size that fits."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.code import is_users
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import DeviceOutOfMemory, as_out_of_memory, handled
from oomph.protocol.micro_batch_sizes import MicroBatchSearch, Regrowth
from oomph.script.cells import is_cell, site_in
from oomph.script.kept_micro_batches import Start

END_OF_DATA = (StopIteration, tf.errors.OutOfRangeError)
COMPUTE, COMMIT, INPUT = "compute", "commit", "input"
"""The phases of a step: nothing has been assigned yet; assigning may have begun; there is no batch yet."""


@dataclass(frozen=True)
class Failed:
    """A step that ran out of memory. After a failure in the compute phase, nothing has changed."""

    oom: DeviceOutOfMemory
    error: BaseException
    phase: str
    """The phase in which the step failed: COMPUTE, COMMIT or INPUT."""
    batch: Any = None
    done: int = 0
    """The number of steps that the same execution (`steps_per_execution`) had already completed."""
    samples: int | None = None
    """The number of samples in the micro-batch that failed, or None for a full batch."""


def attempt(
    run: Callable[[], Any], passed_on: tuple[type[BaseException], ...] = (), *, phase: str = COMPUTE, batch: Any = None
) -> Any:
    """Return the result of `run`, or Failed if it runs out of memory. Other errors propagate.

    After a failure, garbage is collected, since the next try may need the memory.

    Args:
        run: the function to try.
        passed_on: errors that are never caught.
        phase: the phase of the step that `run` carries out.
        batch: the batch of the step, if Python holds it.
    """
    try:
        with handled():
            return run()
    except passed_on:
        raise
    except Exception as error:
        oom = as_out_of_memory(error)
        if oom is None or (oom.disguised and not DeviceMemory.of_training_device().was_nearly_full()):
            raise
        caught = error
    _let_go_of_frames(caught)
    gc.collect()
    return Failed(oom, caught, phase, batch)


def _let_go_of_frames(error: BaseException) -> None:
    """Remove the traceback from an error, and add a note with the line of the script that raised it.

    The frames keep tensors alive, and with them the memory that the next try needs. Clearing the frames is not enough:
    TensorFlow removes its own frames from the traceback, and each frame keeps its caller alive, including the callers
    of this function (`filter_traceback` in tensorflow/python/util/traceback_utils.py; `take_ownership` in CPython's
    Python/frame.c).
    """
    frames = traceback.walk_tb(error.__traceback__)
    own = [_line_in_words(frame, line) for frame, line in frames if _is_of_the_script(frame)]
    if own and hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"It was raised at {own[-1]}.")
    error.__traceback__ = None
    if error.__context__ is not None:
        _let_go_of_frames(error.__context__)


def _line_in_words(frame: FrameType, line: int) -> str:
    path = frame.f_code.co_filename
    return site_in(frame, line) if is_cell(path) else f"{path}, line {line}"


def _is_of_the_script(frame: FrameType) -> bool:
    return is_users(str(frame.f_globals.get("__name__")))


_LIKELY_DIVISOR = 4
_LOOK_AGAIN = 5.0
"""The time, in seconds, between checks of whether memory has become free."""


class SizeSearch:
    """The search for a size that fits into memory, updated after each run."""

    def __init__(self) -> None:
        self.known = MicroBatchSearch()
        self.chosen: int | None = None
        """The size of the micro-batch in use, or None while batches are not split or the search is under way."""
        self.room_bytes: int | None = None
        """The memory, in bytes, that was available to a micro-batch at the last failure, or None if unknown."""
        self._begin: Start | None = None
        """The micro-batch that this process starts with, until its first batch."""
        self._limit_bytes: int | None = None
        self._most_bytes = 0
        self._others_hold = self._gaps = False
        self._gpu: str | None = None
        """The GPU that ran out of memory, or None if the error did not name it."""
        self._failed_at = self._cost = 0.0
        self._regrowth: Regrowth | None = None
        self._looked_at = 0.0

    @property
    def is_whole(self) -> bool:
        """True if batches are not split."""
        return self.known.failed is None and self.chosen is None and self._begin is None

    @property
    def likely_to_fit(self) -> int | None:
        """The number of samples very likely to fit: those in use, a quarter of the size that failed, or None."""
        if self.chosen is not None:
            return self.chosen
        return None if self.known.failed is None else max(1, self.known.failed // _LIKELY_DIVISOR)

    def begin(self, start: Start) -> None:
        """Start with micro-batches of this size, unless a size is already known."""
        if not self.is_whole:
            return
        if start.guessed:
            self._begin, self._limit_bytes = start, DeviceMemory.of_training_device().limit_bytes
        else:
            self.chosen = start.samples

    def expect_gaps(self) -> None:
        """Use less of the memory, since the step keeps many small tensors, which fragment it."""
        self._gaps, self.known = True, replace(self.known, gaps=True)

    def next_size(self, batch: int) -> int | None:
        """Return the most samples to try next from a batch of `batch` samples, or None if not even one fits."""
        if self.chosen is not None:
            return min(self.chosen, batch)
        if self._begin is not None:  # the full batch failed in the process before this one
            self.known, self._begin = MicroBatchSearch(max(2, batch), self._begin.samples, gaps=self._gaps), None
        return None if self.known.hopeless else self.known.micro_batch(batch)

    def run(self, samples: int, step: Callable[[], Any]) -> Any:
        """Run `step` on a micro-batch of this size and return its result or Failed; during a search, measure memory."""
        if self.chosen is not None or self.known.failed is None:
            return attempt(step)
        memory = DeviceMemory.of_training_device(self._gpu)
        memory.reset_peak()
        base = memory.in_use_bytes() or 0
        outcome = attempt(step)
        peak = memory.peak_bytes() or 0
        self._most_bytes = max(self._most_bytes, peak)
        if not isinstance(outcome, Failed):
            room = None if self._limit_bytes is None else self._limit_bytes - base
            self.known = self.known.after_fit(samples, max(0, peak - base), room)
        return outcome

    def learn(self, failed: Failed, samples: int, seconds: float, extra_bytes: int = 0) -> None:
        """Learn from a failure with this many samples.

        Args:
            seconds: the time that the failure cost.
            extra_bytes: the device memory that micro-batches need on top of what the full batch needed.
        """
        self._gpu = failed.oom.gpu or self._gpu
        memory = DeviceMemory.of_training_device(self._gpu)
        peak, base, limit = memory.peak_bytes() or 0, memory.in_use_bytes() or 0, memory.limit_bytes
        requested, need = failed.oom.requested_bytes, None
        self._most_bytes = max(self._most_bytes, peak)
        self._others_hold = False
        if failed.oom.whole_step and requested:
            need = requested + max(0, peak - base)  # XLA reports only its last allocation: earlier ones took the rest
        elif peak and (limit is None or (requested and peak + requested < limit)):
            limit = self._limit_when_refused(memory, peak, requested or 0)
        self._limit_bytes = limit
        self.room_bytes = None if limit is None else limit - base - extra_bytes
        self._failed_at, self._cost, self.chosen = time.monotonic(), seconds, None
        self.known = self.known.after_failure(samples, self.room_bytes, need)
        if self._regrowth is not None:
            self._regrowth = self._regrowth.after_failure(self._failed_at, seconds)

    def _limit_when_refused(self, memory: DeviceMemory, peak: int, requested: int) -> int:
        """Return the memory limit, in bytes, to assume after an allocation was refused below the known limit.

        The free memory is fragmented or, on a GPU, partly held by other processes. The amount that is really free lies
        between nothing and the whole request.
        """
        self.expect_gaps()
        if memory.limit_bytes is not None and memory.device.startswith("CPU"):
            return memory.limit_bytes
        self._others_hold = True
        return max(self._most_bytes, peak + requested // 2)

    def settle(self, batch: int) -> None:
        """Adopt the size that the search found, after a batch of `batch` samples was completed in micro-batches."""
        if self.chosen is None and self.known.failed is not None:
            room = self._room_now()
            self.known = self.known.lasting(room)
            self.chosen = self.known.micro_batch(batch)
            setbacks = 0 if self._regrowth is None else self._regrowth.setbacks
            self._regrowth = Regrowth(self.chosen, room, self._failed_at, self._cost, self._others_hold, setbacks)

    def grow(self, batch: int) -> None:
        """Use larger micro-batches or whole batches if memory is likely to have been freed."""
        now = time.monotonic()
        if self._regrowth is None or self.chosen is None or now - self._looked_at < _LOOK_AGAIN:
            return
        self._looked_at = now
        larger = self._regrowth.larger(now, self._room_now())
        if larger is None:
            return
        self.chosen = None if larger >= batch else larger
        whole = larger >= batch
        self.known = MicroBatchSearch(gaps=self._gaps) if whole else MicroBatchSearch(batch, larger, gaps=self._gaps)
        self._regrowth = Regrowth(larger, self._room_now(), now, self._cost, self._others_hold, self._regrowth.setbacks)

    def undivided(self) -> None:
        """Use whole batches, and discard what was learned."""
        self.known, self.chosen, self._regrowth, self._begin = MicroBatchSearch(gaps=self._gaps), None, None, None

    def _room_now(self) -> int | None:
        memory = DeviceMemory.of_training_device(self._gpu)
        limit = self._limit_bytes if self._others_hold else memory.limit_bytes
        base = memory.in_use_bytes()
        return None if limit is None or base is None else limit - base
