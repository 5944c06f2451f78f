"""One try of something that may run out of memory: returns its result, or its failure with all memory released."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.code import is_users
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import DeviceOutOfMemory, as_out_of_memory, handled

END_OF_DATA = (StopIteration, tf.errors.OutOfRangeError)
COMPUTE, COMMIT, INPUT = "compute", "commit", "input"
"""The phases of a step: nothing is assigned; something may be assigned; there is no batch yet."""


@dataclass(frozen=True)
class Failed:
    """A step that ran out of memory. After a failure in the compute phase, everything is as before the step."""

    oom: DeviceOutOfMemory
    error: BaseException
    phase: str
    """The phase in which the step failed: COMPUTE, COMMIT or INPUT."""
    batch: Any = None
    done: int = 0
    """The number of steps that the same execution (`steps_per_execution`) had completed before."""
    samples: int | None = None
    """The samples of the micro-batch that failed; None for a full batch."""


def attempt(
    run: Callable[[], Any], passed_on: tuple[type[BaseException], ...] = (), *, phase: str = COMPUTE, batch: Any = None
) -> Any:
    """Return the result of `run`, or Failed if it runs out of memory. Other errors propagate.

    Collects garbage, since the next try may need its memory.

    Args:
        run: what to try.
        passed_on: errors that are never caught.
        phase: the phase of the step that `run` is.
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

    The frames hold tensors, and so the memory that the next try needs. Clearing the frames is not enough: TensorFlow
    removes its own from the traceback, and each frame holds its caller, including the callers of this function
    (`filter_traceback` in tensorflow/python/util/traceback_utils.py; `take_ownership` in CPython's Python/frame.c).
    """
    frames = traceback.walk_tb(error.__traceback__)
    own = [f"{frame.f_code.co_filename}, line {line}" for frame, line in frames if _is_of_the_script(frame)]
    if own and hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"It was raised at {own[-1]}.")
    error.__traceback__ = None
    if error.__context__ is not None:
        _let_go_of_frames(error.__context__)


def _is_of_the_script(frame: FrameType) -> bool:
    return is_users(str(frame.f_globals.get("__name__")))
