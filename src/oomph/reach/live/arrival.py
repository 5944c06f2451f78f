"""Handles the start of training: either it runs for real, or it is examined and the script stops."""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import linecache
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

import tensorflow as tf

from oomph.errors import OomphError
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.reach.channel import Channel, wait_for_the_end
from oomph.reach.other_fits import in_words, other_fits
from oomph.reach.request import FIT, LOOP
from oomph.script.cells import source_file
from oomph.script.script_line import ScriptLine, calling, calling_frames

_MARK = "_oomph_examines"
_IGNORED = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2)
_PLAIN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Reached:
    """A training call at the moment it was reached, just before training starts."""

    kind: str
    """"fit", "train_on_batch" or "custom loop"."""
    model: Any
    """The compiled model; for a custom loop, the model whose weights it trains, or None."""
    fit_arguments: Mapping[str, Any]
    """The arguments of the call by name, including defaults: x, y, batch_size, validation_data, ...

    For a custom loop, `grads` and `trainable_variables` as passed to `optimizer.apply`.
    """
    optimizer: Any
    jit_compile: str
    """The `jit_compile` passed to `compile`: "True", "False" or "auto", which becomes False if no GPU is visible.

    For a custom loop, whether its step's `tf.function` has `jit_compile=True`.
    """
    place: ScriptLine | None
    """The script line that makes the call; None if no script code is running."""
    not_looked_at: str = ""
    """A sentence, without a full stop, about the script's fits that are not examined; empty if it contains none."""
    loss_calls: tuple[Any, ...] = ()
    """The last calls to Keras' loss objects in a custom loop, each a `LossCall`."""
    graph: Any = field(default=None, compare=False, repr=False)
    """The graph in which a custom loop's step is traced; None if it runs eagerly."""
    tell: Callable[[str], None] = field(default=lambda text: None, compare=False, repr=False)
    """Shows the user what the examiner is currently doing."""


class Arrivals:
    """The training calls of one process, in the order in which they start."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.loss_calls: Callable[[], tuple[Any, ...]] = tuple
        """Returns the last calls to loss objects."""
        self._running = 0
        self._seen: set[tuple[str, str, int]] = set()
        self._compiled_with: dict[int, str] = {}
        self._ran: set[tuple[str, int]] = set()
        """The files and lines of the training calls that ran for real."""

    def is_nested(self) -> bool:
        """True during real training or in an examining thread: steps taken then are not separate training calls."""
        return self._running > 0 or getattr(threading.current_thread(), _MARK, False)

    def listen(self) -> None:
        """Record the loss calls of custom loops from now on, since Keras is completely imported."""
        self.loss_calls = importlib.import_module("oomph.resume.loop.loss_calls").listen(self.is_nested)

    def compiles(self, model: Any, jit_compile: Any) -> None:
        """Record the `jit_compile` passed to a model's `compile`."""
        self._compiled_with[id(model)] = jit_compile if jit_compile == "auto" else str(bool(jit_compile))

    @contextmanager
    def training(self) -> Iterator[None]:
        """Mark that training runs for real within the block."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def begin(
        self, kind: str, owner: Any, optimizer: Any, arguments: Mapping[str, Any], model: Callable[[], Any]
    ) -> None:
        """Return if this training runs for real; never return if it is the one to examine.

        Each call to `fit` counts as one training call. For other kinds, all calls of one `owner` at one line count as
        one.
        """
        line = calling()
        key = (kind, "" if line is None else line.place, id(owner))
        if kind != FIT and key in self._seen:
            return
        frame = next(calling_frames(), None)
        if not self._channel.take_turn():
            self._seen.add(key)
            self._ran.update(() if frame is None else [(frame.f_code.co_filename, frame.f_lineno)])
            self._channel.tell(trains=kind, **_told(line))
            return
        found = model()
        given = str(is_compiled_by_xla()) if kind == LOOP else self._compiled_with.get(id(found), "auto")
        calls, graph = (self.loss_calls(), _traced()) if kind == LOOP else ((), None)
        others = "" if line is None or frame is None else self._others(line.site, frame)
        self._examine(Reached(kind, found, arguments, optimizer, given, line, others, calls, graph, self._progress))

    def _others(self, site: str, frame: FrameType) -> str:
        """Describe, in one sentence, the other fits in the file of the training call."""
        path, source = frame.f_code.co_filename, linecache.getlines(source_file(frame), frame.f_globals)
        ran = {line for file, line in self._ran if file == path}
        return in_words(site, other_fits("".join(source), frame.f_lineno, ran))

    def _progress(self, text: str) -> None:
        self._channel.tell(progress=str(text))

    def _examine(self, reached: Reached) -> NoReturn:
        channel, handover = self._channel, self._channel.handover
        try:
            _keep_the_script_still()
            channel.tell(examines=reached.kind, pid=os.getpid(), **_told(reached.place))
            document = outside_of_traces(lambda: _named(handover.examiner)(reached, dict(handover.arguments)))
            _flush()
            channel.answer(document)
        except BaseException as error:
            channel.end(failed=_in_words(error))


def _traced() -> Any:
    """Return the graph that is being traced, or None in eager execution."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def outside_of_traces(examine: Callable[[], Any]) -> Any:
    """Run a function outside any traced step, and return its result.

    A custom loop is reached while its step is being traced. A new thread has no graph, no strategy and no gradient
    tape; `tf.init_scope` would keep tapes from recording.
    """
    if tf.executing_eagerly():
        return examine()
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.extend((examine(), None))
        except BaseException as error:
            ended.extend((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if ended[1] is not None:
        raise ended[1]
    return ended[0]


def _keep_the_script_still() -> None:
    """Keep the script's code from interrupting this thread, and another thread from running the exit handlers."""
    thread = threading.current_thread()
    setattr(thread, _MARK, True)
    _mark_started_threads()
    faulthandler.cancel_dump_traceback_later()  # it may be set to kill the process
    if thread is threading.main_thread():
        for signum in _IGNORED:
            signal.signal(signum, signal.SIG_IGN)
        for signum in _PLAIN:
            signal.signal(signum, signal.SIG_DFL)
    else:
        atexit.register(wait_for_the_end)  # the handler registered last runs first


def _mark_started_threads() -> None:
    """Mark threads started by an examining thread as examining too, since a strategy's threads do its work."""
    original = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if getattr(threading.current_thread(), _MARK, False):
            setattr(self, _MARK, True)
        original(self)

    threading.Thread.start = start  # type: ignore[method-assign]


def _named(name: str) -> Callable[[Reached, dict[str, Any]], Any]:
    module, _, function = name.partition(":")
    found: Callable[[Reached, dict[str, Any]], Any] = getattr(importlib.import_module(module), function)
    return found


def _flush() -> None:
    """Flush the script's output, but not through the script's own objects, which might do anything."""
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads the stream, or it is closed


def _told(line: ScriptLine | None) -> dict[str, str]:
    if line is None:
        return {"site": "the script"}
    return {"site": line.site, "function": line.function, "source": line.source}


def _in_words(error: BaseException) -> str:
    """Return the error's message on one line, without the class name for oomph's own errors."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""  # an exception whose __str__ fails
    if text and isinstance(error, OomphError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_compiled_by_xla() -> bool:
    """True if a `tf.function` with `jit_compile=True` is being traced in this thread."""
    cls = TENSORFLOW.function.value()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, cls) and TENSORFLOW.jit_compile.get(owner, None):
            return True
        frame = frame.f_back
    return False
