"""Watches, in the script process, what happens outside guarded steps: out-of-memory errors and custom loops.

Nothing is repaired here, and no exception is changed. Errors are named in the journal, including those that the script
catches itself. Custom loops are detected where they call `optimizer.apply`: in Python for eager loops; for others,
while a `tf.function` is traced, whose calls are counted from then on.

Source: tensorflow/python/eager/core.py, where every error of TensorFlow's runtime becomes a Python exception;
`Function.__call__` in tensorflow/python/eager/polymorphic_function/polymorphic_function.py; tracing_compilation.py
beside it. One of their functions runs exactly when another is traced.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph import testing
from oomph.api.custom_step import steps_before
from oomph.journal.events import LoopSeen, Oom
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import as_out_of_memory, being_handled
from oomph.keras_bridge.runtime.patching import patch
from oomph.protocol.progress import Phase
from oomph.resume.loop import loops
from oomph.resume.training.identity import call_site
from oomph.script.loop_location import enclosing_loops
from oomph.script.session import Session

_STEPPING = (Phase.FIRST_STEP, Phase.STEP, Phase.EPOCH_START)
"""The phases of a fit in which a step may be traced; a nested trace is part of the outer one."""


def watch(session: Session) -> None:
    """Watch this process; each of the three watches is skipped if TensorFlow or Keras lacks what it needs."""
    seen = _Seen(session)
    for feature, install in _WATCHES.items():
        if not support.lacks(feature):
            install(seen)


class _Seen:
    """Events outside guarded steps: each is reported once on stderr, and always in the journal."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._said: set[str] = set()

    def out_of_memory(self, error: BaseException) -> None:
        """Report an exception from TensorFlow's runtime, if it is about memory."""
        oom = as_out_of_memory(error)
        if (
            oom is None
            or being_handled()
            or (oom.disguised and not DeviceMemory.of_training_device().was_nearly_full())
        ):
            return
        site = call_site()
        session = self._session.in_this_process()
        session.journal.write(Oom(phase="elsewhere", site=site, message=oom.line, requested_bytes=oom.requested_bytes))
        self._say(f"out of memory at {site}, outside a guarded step: left to the script")

    def step_of_a_loop(self, optimizer: Any, applied: bool) -> None:
        """Count a custom loop's step that applies, or has `applied`, gradients, outside other trainings."""
        if loops.within_a_training():
            return
        session = self._session.in_this_process()
        first = "loop" not in self._said
        restored = steps_before([optimizer], applied) if first else 0
        if session.board is not None:
            testing.steps_committed(session.board.count_step(restored))
        loops.note_step()
        if first:
            self._said.add("loop")
            site = call_site()
            session.journal.write(LoopSeen(site=site, loops=enclosing_loops(sys._getframe(1)), restored=restored))
            session.say(
                f"watching the training loop at {site} (restart only: a custom loop; oomph.steps makes it resumable,"
                " @oomph.guard on its step splits batches that do not fit)"
            )
        if session.pulse.phase in (Phase.OWN_CODE, Phase.LOOP):
            session.pulse.beat(Phase.LOOP)

    def trace(self, create: Callable[[], Any]) -> Any:
        """Trace a `tf.function`; the step that needs it may take as long as a first step."""
        pulse = self._session.in_this_process().pulse
        if pulse.phase not in _STEPPING:
            return create()
        with pulse.during(Phase.TRACING, after=Phase.FIRST_STEP):
            return create()

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._session.in_this_process().say(text)


def _watch_errors(seen: _Seen) -> None:
    row = TENSORFLOW.status_to_exception
    original = row.value()

    @functools.wraps(original)
    def status_to_exception(status: Any) -> Any:
        error = original(status)
        try:
            seen.out_of_memory(error)
        except Exception:
            pass  # the user's error is what matters
        return error

    patch(*row.place, status_to_exception)


def _watch_loops(seen: _Seen) -> None:
    optimizer, function = KERAS.optimizer.value(), TENSORFLOW.function.value()
    apply, call = optimizer.apply, function.__call__
    running = threading.local()
    appliers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
    """The functions that apply gradients, each with a reference to the optimizer."""

    @functools.wraps(apply)
    def watched_apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not being_handled():
            outermost = getattr(running, "function", None)
            if tf.executing_eagerly():
                seen.step_of_a_loop(self, applied=False)
            elif outermost is not None:
                appliers[outermost] = weakref.ref(self)
        return apply(self, *args, **kwargs)

    @functools.wraps(call)
    def watched_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(running, "function", None) is not None:
            return call(self, *args, **kwargs)
        running.function = self
        if not being_handled():
            loops.note_called(self)
        try:
            result = call(self, *args, **kwargs)
        finally:
            running.function = None
        if self in appliers and not being_handled():
            seen.step_of_a_loop(appliers[self](), applied=True)
        return result

    patch(optimizer, "apply", watched_apply)
    patch(function, "__call__", watched_call)


def _watch_tracing(seen: _Seen) -> None:
    row = TENSORFLOW.create_concrete_function
    create = row.value()

    @functools.wraps(create)
    def create_concrete_function(*args: Any, **kwargs: Any) -> Any:
        return seen.trace(lambda: create(*args, **kwargs))

    patch(*row.place, create_concrete_function)


_WATCHES = {
    Feature.ERRORS_OUTSIDE: _watch_errors,
    Feature.CUSTOM_LOOPS: _watch_loops,
    Feature.TRACING: _watch_tracing,
}
