"""StepProfile: records the steps of `oomph run --profile START:STOP` with TensorFlow's profiler.

The profiler starts and stops between two steps, when no device has work left: the trace has these steps and nothing
else. Outside the window, a step costs one comparison. Only one profiler can run in a process, and the script's own has
precedence: TensorBoard(profile_batch=...), tf.profiler.experimental.start, tf.summary.trace_on, or a capture by the
profiler server that it has started.

Source: tensorflow/python/profiler/profiler_v2.py, whose `start` is called by all of these.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from oomph.files.opening import make_own_folder, reached
from oomph.journal.events import ProfileFailed, ProfileSaved, ProfileStarted
from oomph.journal.journal import facts, read_journal
from oomph.keras_bridge.runtime.patching import replaced
from oomph.protocol.profile_window import ProfileWindow
from oomph.run.report.profiled import (
    ENDED,
    FAILED,
    FOLDER,
    INTERRUPTED,
    OTHER_PROFILER,
    failed_in_words,
    how_to_open,
    saved_in_words,
)
from oomph.script.session import Session

_SESSIONS = f"{FOLDER}/plugins/profile"
"""The folder in which TensorFlow makes one for each trace, named after the time."""


class StepProfile:
    """Records the steps of the window in this process. Its methods never raise, and never change the training.

    Args:
        session: this process's session. Only its owner process records.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        window = session.handover.guarding.profile
        self._window = window or ProfileWindow(0, 0)
        self._run_dir = session.run_dir or Path()
        self.is_over = (
            window is None or session.run_dir is None or not session.owner or self._was_recorded(session, window)
        )
        """True if there is nothing to record, or nothing more."""
        self._trace: _Trace | None = None
        self._mark: Any = None
        """The mark of the step that is running, by which the tools tell the steps of a trace apart."""
        self._outside = 0
        """The number of steps outside fits and resumable loops, which nobody else counts."""

    def before_step(self, steps: int, ahead: int = 1) -> None:
        """Start recording if one of the next steps is in the window, after the first `steps` ones of the run.

        Args:
            ahead: the number of steps that are executed at once.
        """
        steps += self._outside
        if not self.is_over and (self._trace is not None or self._window.has_begun(steps, ahead)):
            self._safely(lambda: self._before(steps))

    def after_step(self, steps: int) -> None:
        """Stop recording if all steps of the window are among the `steps` ones that are committed."""
        if self._trace is not None:
            self._safely(lambda: self._after(steps + self._outside))

    def step_outside(self, steps: int) -> None:
        """Count a step outside fits and resumable loops, which is only seen when it ends; the next one begins there."""
        self._outside += 1
        self.after_step(steps)
        self.before_step(steps)

    def end(self, why: str = ENDED) -> None:
        """Write the trace of the steps so far, since no step follows in this fit or loop, or in this process."""
        if self._trace is not None:
            self._safely(lambda: self._finish(why))

    def _before(self, steps: int) -> None:
        if self._trace is None:
            self._begin(steps)
        if self._trace is not None and self._mark is None:  # at the end of an epoch, a step is announced twice
            self._mark = _begun_mark(steps)

    def _after(self, steps: int) -> None:
        self._end_mark()
        if self._trace is not None:
            self._trace.last = steps
        if self._window.is_over(steps):
            self._finish()

    def _begin(self, steps: int) -> None:
        if self._window.is_over(steps) or not self._session.is_owner_now():
            self.is_over = True
            return
        import tensorflow as tf

        make_own_folder(self._run_dir, FOLDER)
        try:
            self._trace = _Trace(self._run_dir, steps, self._give_way)
        except tf.errors.AlreadyExistsError:
            self._fail(ProfileFailed(first=steps + 1, why=OTHER_PROFILER))
            return
        atexit.register(self.end, INTERRUPTED)
        self._session.journal.write(ProfileStarted(first=steps + 1))

    def _give_way(self) -> None:
        self.end(OTHER_PROFILER)

    def _finish(self, cut: str = "") -> None:
        """Stop the profiler. A trace that ends early is the only one of this process all the same."""
        trace, self._trace, self.is_over = self._trace, None, True
        if trace is None or not self._session.is_owner_now():
            return
        if trace.last < trace.first:
            trace.drop()
            self._fail(ProfileFailed(first=trace.first, why=cut))
            return
        saved = trace.save(cut)
        self._end_mark()  # not earlier: a step that has not ended must have no mark in the trace
        self._session.journal.write(saved)
        opens = how_to_open(os.path.relpath(self._run_dir / FOLDER))
        self._session.say(
            f"{saved_in_words(saved)}; oomph report shows what they spent their time on, and {opens} the whole trace"
        )

    def _end_mark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _fail(self, failed: ProfileFailed) -> None:
        self.is_over, self._trace = True, None
        self._end_mark()
        self._session.journal.write(failed)
        self._session.say(failed_in_words(failed))

    def _safely(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # an error of the profiler must not stop training
            if self._trace is not None:
                self._trace.drop()
            first = self._window.start + 1
            self._fail(ProfileFailed(first=first, why=FAILED, reason=f"{type(error).__name__}: {error}"[:2000]))

    @staticmethod
    def _was_recorded(session: Session, window: ProfileWindow) -> bool:
        """True if an earlier attempt has recorded the whole window."""
        if session.handover.attempt == 1 or session.run_dir is None:
            return False
        before = facts(read_journal(session.run_dir), ProfileSaved)
        return any(window.is_covered(each.first, each.last) for each in before)


class _Trace:
    """A trace that is being taken.

    Args:
        run_dir: the run directory.
        steps: the steps of the run before the first one in the trace.
        give_way: called before the script starts a profiler of its own.

    Raises:
        tf.errors.AlreadyExistsError: if the script has a profiler that is running, or its profiler server captures.
    """

    def __init__(self, run_dir: Path, steps: int, give_way: Callable[[], None]) -> None:
        import tensorflow as tf

        self._run_dir, self.first, self.last = run_dir, steps + 1, steps
        self._known = set(self._sessions())
        tf.test.experimental.sync_devices()
        try:
            tf.profiler.experimental.start(str(reached(run_dir / FOLDER)))
        except tf.errors.AlreadyExistsError as error:
            if error.__context__ is not None:  # a server's session: TensorFlow keeps ours, which did not start
                tf.profiler.experimental.stop(save=False)
            raise
        self._began = time.monotonic()
        self._patches = ExitStack()
        for owner in _owners_of(tf.profiler.experimental):
            self._patches.enter_context(replaced(owner, "start", _after(give_way, owner.start)))

    def save(self, cut: str) -> ProfileSaved:
        """Stop the profiler, and return what it wrote."""
        import tensorflow as tf

        self._patches.close()
        try:
            tf.test.experimental.sync_devices()
            stopped = time.monotonic()
            tf.profiler.experimental.stop()
        except Exception:
            self.drop()
            raise
        name = next((name for name in sorted(self._sessions(), reverse=True) if name not in self._known), "")
        return ProfileSaved(
            first=self.first,
            last=self.last,
            trace=name,
            bytes=(self._run_dir / name).stat().st_size if name else None,
            seconds=round(stopped - self._began, 6),
            saving_seconds=round(time.monotonic() - stopped, 6),
            cut=cut,
        )

    def drop(self) -> None:
        """Stop the profiler if it is still running. Writes nothing, and never raises."""
        import tensorflow as tf

        self._patches.close()
        try:
            tf.profiler.experimental.stop(save=False)
        except Exception:
            pass  # it has been stopped, or cannot be

    def _sessions(self) -> Iterable[str]:
        """Return the names of the traces in the run directory, below it."""
        found = (self._run_dir / _SESSIONS).glob("*/*.xplane.pb")
        return [path.relative_to(self._run_dir).as_posix() for path in found]


def _begun_mark(steps: int) -> Any:
    """Begin the mark of a step, in the form from which TensorBoard's profiler takes the time of a step."""
    import tensorflow as tf

    mark = tf.profiler.experimental.Trace("train", step_num=steps + 1, _r=1)
    mark.__enter__()
    return mark


def _owners_of(public: Any) -> list[Any]:
    """Return the modules in which `start` is looked up: the public one, and the one that defines it."""
    return [public, sys.modules[public.start.__module__]]


def _after(action: Callable[[], None], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def then_original(*args: Any, **kwargs: Any) -> Any:
        action()
        return original(*args, **kwargs)

    return then_original
