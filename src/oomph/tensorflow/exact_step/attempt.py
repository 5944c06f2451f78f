"""One try of something that may run out of memory: what it returns, or what has failed, with all its memory let go.

In the script's process.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import tensorflow as tf

from oomph.tensorflow.objects.code import is_users
from oomph.tensorflow.runtime.allocator import DeviceMemory
from oomph.tensorflow.runtime.errors import OutOfMemory, as_out_of_memory, handled

END_OF_DATA = (StopIteration, tf.errors.OutOfRangeError)


@dataclass(frozen=True)
class Failed:
    """A step that ran out of memory. In the compute phase everything is as it was before it."""

    oom: OutOfMemory
    error: BaseException
    phase: str
    """"compute": nothing was assigned; "commit": something may have been; "input": it never had its batch."""
    batch: Any = None
    done: int = 0
    """Steps of the same execution (`steps_per_execution`) that were complete before."""


def attempt(run: Callable[[], Any], passed_on: tuple[type[BaseException], ...] = ()) -> Any:
    """What `run` returns, or Failed when it runs out of memory; any other error goes on.

    The phase is left at "compute" for the caller to settle. What garbage there is may be all that the next try lacks.
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
    return Failed(oom, caught, "compute")


def _let_go_of_frames(error: BaseException) -> None:
    """Take the traceback from an error, and leave a note of the lines of the script in it.

    Its frames hold tensors, and with them the memory that the next try needs. To clear them is not enough: TensorFlow
    takes its own out of the traceback, and each frame holds the one that it was called from, this one's callers too
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
