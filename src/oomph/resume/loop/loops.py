"""The resumable loop over `oomph.steps` that is running in this process, if any, and how it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from oomph.errors import TrainingStoppedError
from oomph.journal.events import GuardFailed
from oomph.process import undoing
from oomph.protocol.progress import Phase
from oomph.resume.loop.steps import LoopObserver, Steps, Unwatched
from oomph.resume.training import leaving
from oomph.script import session

if TYPE_CHECKING:
    from oomph.resume.loop.resumable import ResumableLoop
    from oomph.resume.loop.state import Root
    from oomph.resume.training.fits import Fits

T = TypeVar("T")
_fits: Fits | None = None
_running: ResumableLoop | None = None
_is_trying_out = False


def install(fits: Fits) -> None:
    """Set the fits that resumable loops are part of."""
    global _fits
    _fits = fits
    undoing.remember(_forget)


def _forget() -> None:
    global _fits
    _fits = None


def running() -> ResumableLoop | None:
    """Return the resumable loop that is running in this process, or None."""
    if _running is None or _fits is None or _fits.running is not _running:
        return None
    return _running if _fits.own_session().is_owner_now() else None


def within_a_training() -> bool:
    """True if the owner process is in a guarded fit or a resumable loop, which counts and saves its own steps."""
    return _fits is not None and _fits.running is not None and _fits.own_session().is_owner_now()


@contextmanager
def trying_out() -> Iterator[None]:
    """Count the steps in the block as no training: they are tried on a few samples, and undone."""
    global _is_trying_out
    before, _is_trying_out = _is_trying_out, True
    try:
        yield
    finally:
        _is_trying_out = before


def is_training_elsewhere() -> bool:
    """True if a step that comes now trains outside a guarded fit or resumable loop."""
    return not _is_trying_out and not within_a_training()


def note_called(function: Any) -> None:
    """Record a `tf.function` called by the running fit or loop."""
    functions = None if _fits is None else getattr(_fits.running, "functions", None)
    if isinstance(functions, WeakSet):  # `running` is at first only the model that claimed its turn
        functions.add(function)


def note_step() -> None:
    """Measure a step in a loop that is not resumable, or in a call such as `train_on_batch`."""
    if _fits is None or not is_training_elsewhere():
        return
    meter = _fits.meter
    if not meter.is_measuring:
        meter.begin()
    meter.count()


def note_committed() -> None:
    """Let the profile know that a step is over that `note_step` measures."""
    if _fits is not None and is_training_elsewhere():
        _fits.profile.step_outside(_fits.steps)


def leave_for_the_others(strategy: Any, error: BaseException) -> None:
    """End this process if a guarded step under several workers failed in a way that only their restart can mend."""
    if _fits is not None:
        leaving.leave_for_the_others(_fits, strategy, error)


def begin(steps: Steps) -> LoopObserver:
    """Return the observer of a new loop, which is `Unwatched` in a fit or another loop or outside the owner process."""
    try:
        fits = _guard()
        if fits is None or fits.session.run_dir is None or not fits.own_session().is_owner_now():
            return Unwatched()
        older = _of_keras_2(steps.state)
        if older is not None:
            session.warn(f"{older} belongs to Keras 2, which oomph.steps cannot save: no checkpoints")
            return Unwatched()
        if not fits.claim(steps):
            return Unwatched()
    except Exception as error:
        session.warn(f"{type(error).__name__}: {error}; this loop cannot be resumed")
        return Unwatched()
    return _Watched(fits, steps)


def _of_keras_2(state: Any) -> Root | None:
    """Return an object of Keras 2 in a loop's state, or None if there is none."""
    from oomph.keras_bridge.models import is_of_keras_2
    from oomph.resume.loop.state import roots_of

    return next((root for root in roots_of(state) if is_of_keras_2(root.thing)), None)


def _guard() -> Fits | None:
    """Return this process's fits, importing Keras first if the script uses TensorFlow without it."""
    if _fits is None and "tensorflow" in sys.modules:
        import keras  # noqa: F401  # importing Keras installs the guard
    return _fits


class _Watched:
    """A resumable loop, which continues as a plain loop if oomph itself fails."""

    def __init__(self, fits: Fits, steps: Steps) -> None:
        self._fits, self._steps = fits, steps
        self._loop: ResumableLoop | None = None
        self._is_over = False

    def resume(self) -> int | None:
        return self._safely(self._begun)

    def _begun(self) -> int | None:
        global _running
        from oomph.resume.loop.resumable import ResumableLoop

        self._loop = ResumableLoop(self._fits, self._steps, _frame_of_the_script())
        self._fits.running = _running = self._loop
        self._fits.beat(Phase.FIRST_STEP, self._loop.identity.ordinal)
        return self._loop.resume()

    def epoch_begins(self, number: int) -> None:
        if self._loop is not None:
            loop = self._loop
            self._safely(lambda: loop.epoch_begins(number))

    def epoch_began(self) -> None:
        if self._loop is not None:
            self._safely(self._loop.epoch_began)

    def at_border(self) -> None:
        if self._loop is not None:
            self._safely(self._loop.at_border)

    def taken(self, batch: Any) -> None:
        if self._loop is not None:
            loop = self._loop
            self._safely(lambda: loop.taken(batch))

    def stepped(self) -> None:
        if self._loop is not None:
            self._safely(self._loop.stepped)

    def finished(self) -> None:
        if self._loop is not None:
            self._safely(self._loop.finished)

    def left(self) -> None:
        """Release everything that the loop has acquired: its claim, the signal handler and the phase."""
        if self._loop is not None:
            self._safely(self._loop.left)
        self._release()

    def _safely(self, action: Callable[[], T]) -> T | None:
        from oomph.keras_bridge.batch.replicas import outside_strategy_scope

        try:
            with outside_strategy_scope():
                return action()
        except TrainingStoppedError:
            self._release()
            raise
        except Exception as error:  # an error in oomph itself must not stop training
            self._loop = None
            self._fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))
            self._fits.warn_once(f"{type(error).__name__}: {error}; the loop continues without checkpoints")
            self._release()
            return None

    def _release(self) -> None:
        global _running
        if self._is_over:
            return
        self._is_over, _running = True, None
        self._fits.release()
        self._fits.beat(Phase.OWN_CODE, -1)
        self._fits.preemption.disarm()


def _frame_of_the_script() -> FrameType | None:
    """Return the innermost frame of the script's own code, since a progress bar may wrap the loop."""
    from oomph.keras_bridge.code import is_users

    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(str(frame.f_globals.get("__name__", ""))):
        frame = frame.f_back
    return frame
