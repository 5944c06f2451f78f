"""Watches, in the script process, everything outside guarded fits: errors, custom loops, `evaluate` and the like.

Nothing is repaired here, and exceptions are not changed. Errors are recorded in the journal, including those that the
script catches itself. Custom loops are detected where they call `optimizer.apply`: for eager loops, in Python; for
others, while a `tf.function` is being traced, whose calls are counted from then on.

Source: tensorflow/python/eager/core.py, where every error of TensorFlow's runtime becomes a Python exception;
`Function.__call__` in tensorflow/python/eager/polymorphic_function/polymorphic_function.py; tracing_compilation.py next
to it. Exactly one function in them runs whenever a `tf.function` is traced.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from oomph import testing
from oomph.api.custom_step import steps_before
from oomph.exact_step.micro_batch.exactness import Promise
from oomph.exact_step.step.probe import ProbeFinding
from oomph.exact_step.step.step_protocol import FailedProbe, Failure, Recovery, Step, facts_of_probe
from oomph.journal.events import GuardFailed, LoopSeen, Oom, ProbeFailed, Recovered, TrainedOutsideFit
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import as_out_of_memory, being_handled
from oomph.keras_bridge.runtime.patching import patch
from oomph.protocol.progress import Phase
from oomph.resume.loop import loops
from oomph.resume.training import leaving
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import call_site
from oomph.script.kept_micro_batches import Start
from oomph.script.loop_location import enclosing_loops
from oomph.script.script_line import unseen
from oomph.script.session import Session

_STEPPING = (Phase.FIRST_STEP, Phase.STEP, Phase.EPOCH_START)
"""The phases of a fit in which a step may be traced; a nested trace is part of the outer one."""


_seen_by: weakref.WeakValueDictionary[int, _Seen] = weakref.WeakValueDictionary()
"""What the watchers of a session share, by the session's id, for as long as one of them is installed."""


def watch_runtime(session: Session) -> None:
    """Watch TensorFlow's errors and traces in this process, unless it lacks the names that are needed."""
    for feature, install in ((Feature.ERRORS_OUTSIDE, _watch_errors), (Feature.TRACING, _watch_tracing)):
        if not support.lacks(feature):
            install(_seen_in(session))


def watch_loops(session: Session) -> None:
    """Watch the custom loops of Keras 3 in this process, unless it lacks the names that are needed."""
    if not support.lacks(Feature.CUSTOM_LOOPS):
        _watch_loops(_seen_in(session))


def _seen_in(session: Session) -> _Seen:
    """Return what all watchers of a session share: an error that two of them see is reported once."""
    return _seen_by.setdefault(id(session), _Seen(session))


class _Seen:
    """Reports events outside guarded steps: once each on stderr, and every time in the journal."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._said: set[str] = set()
        self._seen: weakref.WeakSet[BaseException] = weakref.WeakSet()

    def error(self, error: BaseException) -> None:
        """Report an exception from TensorFlow's runtime if it is about memory. Never raises."""
        try:
            self._out_of_memory(error)
        except Exception:
            pass  # the user's error is what matters

    def _out_of_memory(self, error: BaseException) -> None:
        oom = as_out_of_memory(error)
        if (
            oom is None
            or error in self._seen
            or being_handled()
            or (oom.disguised and not DeviceMemory.of_training_device().was_nearly_full())
        ):
            return
        self._seen.add(error)
        site = call_site()
        session = self._session.in_this_process()
        session.journal.write(Oom(phase="elsewhere", site=site, message=oom.line, requested_bytes=oom.requested_bytes))
        self._warn(f"out of memory at {site}, outside a guarded step: left to the script")

    def step_of_a_loop(self, optimizer: Any, applied: bool) -> None:
        """Count a custom loop's step outside other training; `applied` is True once its gradients have been applied."""
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
                f"watching the training loop at {site} (a custom loop, which a restart starts over, unless the script "
                "restores a checkpoint of its own; oomph.steps makes it resumable, and @oomph.guard on its step splits "
                "batches that do not fit)"
            )
        if session.pulse.phase in (Phase.OWN_CODE, Phase.LOOP):
            session.pulse.beat(Phase.LOOP)

    def trace(self, create: Callable[[], Any]) -> Any:
        """Trace a `tf.function`. The step that triggers the tracing may take as long as a first step."""
        pulse = self._session.in_this_process().pulse
        if pulse.phase not in _STEPPING:
            return create()
        with pulse.during(Phase.TRACING, after=Phase.FIRST_STEP):
            return create()

    def _warn(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._session.in_this_process().warn(text)


def _watch_errors(seen: _Seen) -> None:
    row = TENSORFLOW.status_to_exception
    original = row.value()

    @functools.wraps(original)
    def status_to_exception(status: Any) -> Any:
        error = original(status)
        seen.error(error)
        return error

    patch(*row.place, status_to_exception)


def _watch_loops(seen: _Seen) -> None:
    optimizer, function = KERAS.optimizer.value(), TENSORFLOW.function.value()
    apply, call = optimizer.apply, function.__call__
    running, calls = threading.local(), list[Any]()
    appliers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
    """Maps each function that applies gradients to a reference to its optimizer."""

    def traced() -> Any:
        """Return the function that is being traced. A strategy traces each replica in a thread of its own."""
        return getattr(running, "function", None) or (calls[-1] if calls else None)

    @functools.wraps(apply)
    @unseen
    def watched_apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not being_handled():
            outermost = traced()
            if tf.executing_eagerly():
                seen.step_of_a_loop(self, applied=False)
                applied = apply(self, *args, **kwargs)
                loops.note_committed()
                return applied
            if outermost is not None:
                appliers[outermost] = weakref.ref(self)
        return apply(self, *args, **kwargs)

    @functools.wraps(call)
    @unseen
    def watched_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(running, "function", None) is not None:
            return call(self, *args, **kwargs)
        running.function = self
        calls.append(self)
        if not being_handled():
            loops.note_called(self)
        try:
            result = call(self, *args, **kwargs)
        except tf.errors.OpError as error:  # TensorFlow raises those of a graph without status_to_exception
            seen.error(error)
            raise
        finally:
            running.function = None
            calls.remove(self)
        if self in appliers and not being_handled():
            seen.step_of_a_loop(appliers[self](), applied=True)
            loops.note_committed()
        return result

    patch(optimizer, "apply", watched_apply)
    patch(function, "__call__", watched_call)


def _watch_tracing(seen: _Seen) -> None:
    row = TENSORFLOW.create_concrete_function
    create = row.value()
    stack_filter: Any = TENSORFLOW.stack_filter.value()

    class OurFrames(stack_filter):  # type: ignore[misc]
        """Leaves oomph's frames out of the stacks that TensorFlow keeps of operations, and shows in their errors."""

        def __init__(self) -> None:
            super().__init__()
            ours = [module for name, module in list(sys.modules.items()) if name.startswith("oomph.")]
            self._ours = frozenset(str(module.__file__) for module in ours)

        def get_filtered_filenames(self) -> frozenset[str]:
            return self._ours | self.parent.get_filtered_filenames()  # type: ignore[no-any-return]

    @functools.wraps(create)
    @unseen
    def create_concrete_function(*args: Any, **kwargs: Any) -> Any:
        with OurFrames():
            return seen.trace(lambda: create(*args, **kwargs))

    patch(*row.place, create_concrete_function)


_NOT_RESUMABLE = "guarding steps outside a resumable fit: batches are split where possible, but nothing is checkpointed"


class WatchedSteps:
    """Watches steps that are recovered in process, but neither counted nor checkpointed.

    Args:
        fits: the fits of this process, for its journal.
        during: what the script called, such as "evaluate".
    """

    compares_batches = False

    def __init__(self, fits: Fits, during: str) -> None:
        self._fits, self._during = fits, during

    def before_step(self, step: Step, iterator: Any) -> None:
        pass

    def after_step(self) -> None:
        self._beat_in_validation(Phase.VALIDATION)

    def _beat_in_validation(self, phase: Phase) -> None:
        if self._fits.session.pulse.phase in (Phase.VALIDATION_START, Phase.VALIDATION, Phase.RECOVERING):
            self._fits.beat(phase)

    def failed(self, failure: Failure) -> None:
        self._beat_in_validation(Phase.RECOVERING)
        self._fits.note(
            Oom(during=self._during, batch=failure.batch, micro_batch=failure.micro_batch, phase=failure.phase,
            message=failure.oom.line, requested_bytes=failure.oom.requested_bytes, seconds=round(failure.seconds, 3),
        ))  # fmt: skip

    def recovered(self, recovery: Recovery) -> None:
        self._fits.note(
            Recovered(during=self._during, batch=recovery.batch, micro_batch=recovery.micro_batch,
            ooms=recovery.ooms, seconds=round(recovery.seconds, 3),
        ))  # fmt: skip
        self._fits.say(
            f"recovered in {recovery.seconds:.1f} s: {self._during} now splits its batch of {recovery.batch} into "
            f"micro-batches of {recovery.micro_batch}"
        )

    def probe_failed(self, failed: FailedProbe) -> None:
        self._fits.note(ProbeFailed(during=self._during, **facts_of_probe(failed)))

    def probed(self, promise: Promise, finding: ProbeFinding) -> None:
        self._fits.note_probe(promise, finding, during=self._during)

    def not_recoverable(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        leaving.give_up(self._fits, error, reason)

    def guard_broken(self, error: BaseException) -> None:
        self._fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))


class TrainingOutsideFit(WatchedSteps):
    """Watches training steps outside a guarded fit, and reports once that the script trains outside a fit."""

    kind = ""
    """The kind of training, as in the event."""
    words = _NOT_RESUMABLE

    def __init__(self, fits: Fits, during: str = "train_on_batch") -> None:
        super().__init__(fits, during)

    def before_step(self, step: Step, iterator: Any) -> None:
        if loops.is_training_elsewhere() and self._fits.say_once(self.words):
            self._fits.note(TrainedOutsideFit(site=call_site(), kind=self.kind))
        size = self._fits.session.handover.guarding.micro_batch
        if size is not None:
            step.begin_with(Start(size))

    def after_step(self) -> None:
        super().after_step()
        loops.note_step()
        loops.note_committed()
