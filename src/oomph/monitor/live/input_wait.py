"""InputWait: measures how long training waits for its next batch, at the point where the batch is fetched.

Keras fetches a batch inside its compiled step, where callbacks cannot see it, so the iterator methods of TensorFlow
that return the next element are replaced. When they run in Python, they are timed with a clock. When a function is
being traced, two timestamps and an addition are traced along with the fetch. The values it returns stay the same, so
the step computes the same as before. XLA does not compile iterators, so the fetch lies outside the code that XLA
compiles.

Under a strategy, the fetches of this process's own replicas are measured. The exchange in which several workers agree
that there is a batch left comes after them, and waits for the other workers, not for data (`all_reduce_time.py`).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import patch
from oomph.monitor.live.traced_time import TracedTime, ask_no_more, can_ask
from oomph.process import undoing

_FETCHING = ("get_next", "get_next_as_optional", "__next__")
_FETCHING_FOR_REPLICAS = ("get_next_as_list", "get_next_as_optional_list")


class InputWait:
    """Adds up the time that one thread waits for batches while it listens."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._inside = False
        """True while a fetch is being measured, since one iterator may call another."""
        self._seconds = 0.0

    def listen(self) -> None:
        """Start measuring this thread's fetches, including those in functions that it traces."""
        global _listening
        self._thread = threading.get_ident()
        _listening = self
        _install()

    def stop(self) -> None:
        """Stop measuring. Functions traced since `listen` keep measuring."""
        global _listening
        if _listening is self:
            _listening = None

    def add(self, seconds: float) -> None:
        """Add the time spent waiting for a batch that did not come from a TensorFlow iterator."""
        self._seconds += seconds

    def read(self) -> float:
        """Return the time waited so far, in seconds. Only differences are meaningful."""
        return self._seconds + _traced.read()

    def is_mine(self) -> bool:
        """True if the fetch by the calling thread should be measured."""
        return threading.get_ident() == self._thread and not self._inside

    def fetch(self, take: Callable[[], Any]) -> Any:
        """Fetch the next element and measure how long it takes."""
        self._inside = True
        try:
            if tf.executing_eagerly():
                return self._by_clock(take)
            return self._in_the_graph(take) if can_ask() else take()
        finally:
            self._inside = False

    def _by_clock(self, take: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        taken = take()
        self.add(time.perf_counter() - began)
        return taken

    def _in_the_graph(self, take: Callable[[], Any]) -> Any:
        """Trace the fetch between two timestamps, or on its own if that fails."""
        try:
            began = _traced.begin()
        except Exception:
            return take()
        with tf.control_dependencies([began]):
            taken = take()
        try:
            parts = [part for part in tf.nest.flatten(taken, expand_composites=True) if part is not None]
            with tf.control_dependencies([_traced.end(began, parts)]):
                return tf.nest.map_structure(_same, taken)
        except Exception:
            return taken  # the wait is not measured, but the script still receives its batch


class CountedWait:
    """Measures the part of a wait that counts, leaving out evaluations and the first step of each fit.

    Args:
        wait: returns the whole wait so far, in seconds.
    """

    def __init__(self, wait: Callable[[], float]) -> None:
        self._wait = wait
        self._left_out = 0.0
        self._paused: float | None = None
        self.seconds = 0.0
        """The time that counts, in seconds, as of the last reading."""

    @property
    def is_measured(self) -> bool:
        """True if there was any wait so far, also one that does not count."""
        return self._wait() > 0.0

    def leave_out_what_came(self) -> None:
        """Discard the wait since the last reading."""
        self._left_out, self._paused = self._wait() - self.seconds, None

    def pause(self) -> None:
        """Stop counting until `go_on` is called."""
        self._paused = self._wait()

    def go_on(self) -> None:
        """Resume counting."""
        if self._paused is not None:
            self._left_out += self._wait() - self._paused
            self._paused = None

    def read(self) -> bool:
        """Read the time waited so far. Returns False if it has not increased, as with a step traced earlier."""
        before, self.seconds = self.seconds, self._wait() - self._left_out
        return self.seconds > before


def _same(part: Any) -> Any:
    """Return the same tensor on the same device, but only after the addition, which would otherwise occupy a thread.

    Waiting for the addition is cheaper: it halves the cost of measuring an XLA step. Values other than tensors do not
    wait.
    """
    if not isinstance(part, tf.Tensor):
        return part
    with part.graph.colocate_with(part.op):
        return tf.identity(part)


_listening: InputWait | None = None
_installed = False
_traced = TracedTime("oomph_input_wait")


def _install() -> None:
    global _installed
    if _installed or support.lacks(Feature.INPUT_WAIT):
        return
    _installed = True
    undoing.remember(_forget)
    fetching = ((TENSORFLOW.owned_iterator, _FETCHING), (TENSORFLOW.worker_iterator, _FETCHING_FOR_REPLICAS))
    for row, names in fetching:
        cls = row.value()
        for name in names:
            patch(cls, name, _measured(getattr(cls, name)))
    settings = tf.config.experimental
    patch(settings, "enable_op_determinism", _asking_no_more(settings.enable_op_determinism))


def _forget() -> None:
    global _installed, _listening
    _installed, _listening = False, None


def _measured(original: Callable[..., Any]) -> Callable[..., Any]:
    # `functools.wraps` keeps TensorFlow's `__module__`, so AutoGraph does not convert this function.
    @functools.wraps(original)
    def fetch(self: Any, *args: Any, **kwargs: Any) -> Any:
        wait = _listening
        if wait is None or not wait.is_mine():
            return original(self, *args, **kwargs)
        return wait.fetch(lambda: original(self, *args, **kwargs))

    return fetch


def _asking_no_more(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def enable_op_determinism(*args: Any, **kwargs: Any) -> Any:
        ask_no_more()
        return original(*args, **kwargs)

    return enable_op_determinism
