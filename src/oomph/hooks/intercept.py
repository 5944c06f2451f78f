"""Replaces a few methods of Keras' TensorFlow trainer in the script process, when the script imports Keras.

Keras is probed for features, not for its version. If a probe fails, nothing is replaced, and oomph reports this in one
line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from oomph.errors import TrainingStoppedError, UnsupportedError
from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.step.division import choice_of
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.step_protocol import PlainStep, Step, StepWatch
from oomph.files.user_code import PACKAGE
from oomph.hooks import adjustments, several_workers, unguarded, worker_files
from oomph.hooks.left_out import LeftOut
from oomph.hooks.predict import GuardedPredict
from oomph.hooks.process_fits import fits_of
from oomph.hooks.unguarded import TrainingOutsideFit, WatchedSteps
from oomph.journal.events import FeatureOff, GuardFailed, GuardInstalled
from oomph.keras_bridge.batch.replicas import Replicas, outside_strategy_scope
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.runtime import allocator
from oomph.keras_bridge.runtime.patching import patch
from oomph.keras_bridge.workers import beside_the_chief, is_only_supervised, spans_workers
from oomph.process import undoing
from oomph.protocol.progress import Phase
from oomph.protocol.reasons import because
from oomph.resume.fit import continuation, epochs
from oomph.resume.fit.fit import Fit
from oomph.resume.fit.resumption import CannotResumeError
from oomph.resume.training import leaving
from oomph.resume.training.fits import Fits
from oomph.script.script_line import without_ours
from oomph.script.session import Session

_FIT_ARGUMENTS = {"self", "x", "callbacks", "initial_epoch", "epochs"}
_FUNCTIONS = ("train_function", "test_function", "predict_function")


def install(
    trainer: Any, session: Session, late: bool = False, over: Callable[[Fit], None] | None = None
) -> Fits | None:
    """Guard Keras' TensorFlow trainer, and return the fits of this process, or None if Keras is not supported.

    Args:
        trainer: the module, which has just been imported.
        late: True if it was imported earlier, so that models may have functions that Keras made without the guard.
        over: called with each fit that has finished, but not with those that return the result of an earlier attempt.
    """
    try:
        _probe()
    except UnsupportedError as error:
        session.journal.write(GuardFailed(reason=str(error)))
        session.warn(f"unsupported version of Keras ({error}); the script runs unguarded")
        return None
    for row in support.missing():
        session.journal.write(FeatureOff(name=row.path, feature=row.feature.meaning))
        session.say(f"this {row.library} has no {row}: {row.feature.meaning} is switched off")
    fits = fits_of(session)
    _hide_our_frames()
    _replace_fit(trainer, fits, LeftOut(session).tell if session.handover.guarding.skip_corrupt else _nothing, over)
    made = _Made(trainer.__name__ if late else "")
    undoing.remember(made.forget)
    for name, guard in zip(_FUNCTIONS, (_guarded, _guarded_test, _guarded_predict), strict=True):
        _replace_maker(fits, name, guard, made)
    epochs.replace_epochs(fits)
    several_workers.install(fits)
    _replace_logs(fits)
    adjustments.make(session)
    unguarded.watch_loops(session)
    session.journal.write(GuardInstalled(keras=_version(), tensorflow=getattr(tf, "__version__", "")))
    return fits


def _probe() -> None:
    """Raise UnsupportedError with the missing name unless Keras has everything that the guard needs."""
    try:
        cls = KERAS.trainer.value()
    except ImportError:
        raise UnsupportedError(f"no {KERAS.trainer}") from None
    makers = ("make_train_function", "make_test_function", "make_predict_function")
    for name in ("fit", *makers, "train_step", "test_step", "compute_loss", "train_on_batch"):
        if not callable(getattr(cls, name, None)):
            raise UnsupportedError(f"no {KERAS.trainer}.{name}")
    if not set(inspect.signature(cls.fit).parameters) >= _FIT_ARGUMENTS:
        raise UnsupportedError("fit expects different arguments")
    for name in makers:
        if list(inspect.signature(getattr(cls, name)).parameters) != ["self", "force"]:
            raise UnsupportedError(f"{name} expects different arguments")
    epochs.probe()
    lacking = support.lacks(Feature.GUARD)
    if lacking:
        raise UnsupportedError(lacking)


def _replace_fit(
    trainer: Any, fits: Fits, tell_left_out: Callable[[], None], over: Callable[[Fit], None] | None
) -> None:
    cls = KERAS.trainer.value()
    public = cls.fit
    inner = inspect.unwrap(public)
    signature = inspect.signature(inner)

    @functools.wraps(inner)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        running = _begin(fits, self, signature, args, kwargs)
        if running is None:
            return public(self, *args, **kwargs)
        try:
            with outside_strategy_scope():
                finished = continuation.finished_history(fits, running)
            if finished is not None:
                fits.has_finished(running.identity)
                return finished
            history = _trained(fits, running, lambda: _kept_apart(inner, self, running.arguments))
            _fail_open(fits, lambda: running.finish(history))
            fits.has_finished(running.identity)
            _fail_open(fits, tell_left_out)
            if over is not None:
                _fail_open(fits, functools.partial(over, running))
            running.leave_if_preempted()
        except Exception as error:
            leaving.leave_if_lost(fits, error)
            leaving.leave_for_the_others(fits, self.distribute_strategy, error)
            raise
        except KeyboardInterrupt as error:
            error.__traceback__ = without_ours(error.__traceback__)
            _fail_open(fits, running.tell_interrupted)
            raise
        finally:
            try:
                _fail_open(fits, running.leave)
            finally:  # even if Ctrl-C is pressed again
                _end(fits, running.arguments["callbacks"])
                fits.preemption.disarm()
        return history

    # Wrapped in Keras' own decorator, so that the traceback of an error in fit looks as in plain Keras.
    patch(cls, "fit", trainer.traceback_utils.filter_traceback(fit) if public is not inner else fit)


def _kept_apart(fit: Callable[..., Any], model: Any, arguments: dict[str, Any]) -> Any:
    with worker_files.kept_apart(beside_the_chief(model.distribute_strategy), arguments["callbacks"]):
        return fit(model, **arguments)


def _trained(fits: Fits, fit: Fit, train: Callable[[], Any]) -> Any:
    """Train and return the result. If a checkpoint cannot be restored, try the previous one, or end the run.

    If the run ends, all checkpoints stay intact, so that the user can fix the cause.
    """
    while True:
        try:
            history = train()
            fit.check_restored()
            return history
        except CannotResumeError as error:
            if error.passing:
                leaving.leave_for_later(fits, fit.identity, str(error))
            older = fit.older_checkpoint()
            if older is None:
                leaving.refuse(fits, fit.identity, because("in-words", text=str(error)))
            fits.say(f"using the previous one, {older.name}")
            fit.resume_from(older)


def _begin(fits: Fits, model: Any, signature: inspect.Signature, args: Any, kwargs: Any) -> Fit | None:
    """Return the guarded fit that starts now, or None to run a nested, invalid or unsupported call in plain Keras."""
    try:
        bound = signature.bind(model, *args, **kwargs)
    except TypeError:
        return None  # an invalid call, which Keras itself reports
    if fits.is_over or not getattr(model, "compiled", False) or is_only_supervised(model.distribute_strategy):
        return None
    if not fits.claim(model):
        return None
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    del arguments["self"]
    try:
        identity, place = fits.identify(model)
        promise = exactness.promise_before_tracing(model)
        with outside_strategy_scope():
            running = Fit(fits, model, identity, promise, arguments, place.turn)
        arguments["callbacks"] = _with_ours(arguments["callbacks"], running.weakly)
        fits.running = running
        if fits.own_session().is_owner_now():
            fits.preemption.arm()
            allocator.start_once(fits.session)
        with outside_strategy_scope():
            continuation.settle(fits, running)
        fits.beat(Phase.FIRST_STEP, running.identity.ordinal)
        return running
    except BaseException as error:
        _end(fits, arguments["callbacks"])
        fits.preemption.disarm()
        if isinstance(error, TrainingStoppedError) or not isinstance(error, Exception):
            raise  # the checkpoint was refused: the cell fails, or the script exits
        fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"))
        fits.warn(f"{type(error).__name__}: {error}; this fit runs unguarded")
        return None


def _end(fits: Fits, callbacks: Any) -> None:
    """Release everything that a fit holds except the signals: claim, phase and oomph's callback."""
    fits.release()
    fits.meter.end()
    fits.beat(Phase.OWN_CODE, -1)
    added_to = getattr(callbacks, "callbacks", None)
    if isinstance(added_to, list):
        added_to[:] = [one for one in added_to if not getattr(one, "tells_the_fit", False)]


def _with_ours(callbacks: Any, fit: Fit) -> Any:
    """Return the user's callbacks, followed by one that notifies the fit of its epochs."""
    import keras

    class FitCallback(keras.callbacks.Callback):  # type: ignore[misc]
        async_safe = True  # Keras may keep dispatching the others asynchronously
        tells_the_fit = True

        def on_train_begin(self, logs: Any = None) -> None:
            _watch_the_steps_of_others(fit.fits, fit.model, "train_function")
            _fail_open(fit.fits, fit.begin_training)
            fit.fits.meter.begin(fit.model, fit.arguments.get("epochs"))
            fit.return_if_over()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            _fail_open(fit.fits, lambda: fit.begin_epoch(epoch))
            fit.measure_epoch()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            fit.fits.meter.end_epoch()
            _fail_open(fit.fits, fit.end_epoch)

        def on_test_begin(self, logs: Any = None) -> None:
            fit.validation.is_begun = True
            fit.fits.meter.pause()
            _watch_the_steps_of_others(fit.fits, fit.model, "test_function")
            fit.fits.beat(Phase.VALIDATION_START)

        def on_test_end(self, logs: Any = None) -> None:
            fit.fits.meter.go_on()
            fit.fits.beat(Phase.EPOCH_END)

    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.callbacks.append(FitCallback())  # not every Keras 3 version has `append`
        return callbacks
    if callbacks is None:
        return [FitCallback()]
    return [*callbacks, FitCallback()] if isinstance(callbacks, (list, tuple)) else [callbacks, FitCallback()]


def _replace_logs(fits: Fits) -> None:
    """Supply the last batch's logs to an epoch that resumes after that batch, since Keras does not have them."""
    cls = KERAS.trainer.value()
    original = KERAS.logs_of_epoch.get(cls)
    if original is None:
        return  # this version of Keras only queries the metrics

    @functools.wraps(original)
    def result_or_logs(self: Any, logs: Any) -> Any:
        running = fits.running
        if isinstance(running, Fit) and running.model is self and not logs:
            logs = running.logs_before or logs
        return original(self, logs)

    patch(cls, KERAS.logs_of_epoch.name_on(cls), result_or_logs)


class _Made:
    """The functions that models got while the guard was installed.

    Args:
        keras: the name of the module whose functions Keras may have made before, or "" if there can be none.
    """

    def __init__(self, keras: str) -> None:
        self._keras = keras
        self._names: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
        """Maps each model to the names of its functions."""

    def add(self, model: Any, name: str) -> None:
        """Record that a model got a function with the guard."""
        self._names.setdefault(model, set()).add(name)

    def is_older(self, model: Any, name: str, function: Any) -> bool:
        """True if Keras itself made a model's function before the guard was installed."""
        python = getattr(function, "python_function", function)
        is_of_keras = bool(self._keras) and getattr(python, "__module__", "") == self._keras
        return is_of_keras and name not in self._names.get(model, ())

    def forget(self) -> None:
        """Let Keras make all these functions anew."""
        for model, names in list(self._names.items()):
            for name in names:
                setattr(model, name, None)


def _replace_maker(fits: Fits, name: str, guard: Callable[[Fits, Any, Any], Any], made: _Made) -> None:
    """Make `model.make_NAME` install a guarded function instead of Keras' own."""
    cls = KERAS.trainer.value()
    original = getattr(cls, f"make_{name}")

    @functools.wraps(original)
    def make(self: Any, force: bool = False) -> Any:
        function = getattr(self, name)
        if function is not None and not force and not made.is_older(self, name, function):
            return function
        original(self, force or function is not None)
        if fits.is_over:
            return None
        made.add(self, name)
        try:
            setattr(self, name, guard(fits, self, getattr(self, name)))
        except Exception as error:
            fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"))
        return None

    patch(cls, f"make_{name}", make)


def _watch_the_steps_of_others(fits: Fits, model: Any, name: str) -> None:
    """Watch a custom or unguarded function, since without heartbeats it would look like a hang."""
    function = getattr(model, name, None)
    if callable(function) and not isinstance(function, (GuardedStep, PlainStep)):
        setattr(model, name, PlainStep(model, function, _watch_of(fits, model, name)))


def _watch_of(fits: Fits, model: Any, name: str) -> Callable[[], StepWatch]:
    evaluated = WatchedSteps(fits, "evaluate")

    def watch() -> StepWatch:
        running = fits.running
        return running if isinstance(running, Fit) and running.model is model else TrainingOutsideFit(fits)

    return watch if name == "train_function" else lambda: evaluated


def _guarded(fits: Fits, model: Any, plain: Callable[[Any], Any]) -> Step:
    watch = _watch_of(fits, model, "train_function")
    promise = exactness.promise_before_tracing(model)
    if promise.kind == exactness.RESTART_ONLY:
        return PlainStep(model, several_workers.one_by_one(model, plain), watch)
    choice, witnessed = choice_of(fits.session.handover.guarding), fits.witnesses is not None
    several_workers.average_numbers(model.distribute_strategy)
    with outside_strategy_scope():
        plain = several_workers.one_by_one(model, plain)
        return GuardedStep(model, model.train_step, plain, watch, promise, choice, witnessed=witnessed)


def _guarded_test(fits: Fits, model: Any, plain: Callable[[Any], Any]) -> Step:
    watch = _watch_of(fits, model, "test_function")
    promise = exactness.promise_before_tracing(model, "test_step")
    if promise.kind == exactness.RESTART_ONLY:
        return PlainStep(model, several_workers.one_by_one(model, plain), watch)
    choice = choice_of(fits.session.handover.guarding)
    with outside_strategy_scope():
        return GuardedStep(model, model.test_step, plain, watch, promise, choice, trains=False)


def _guarded_predict(fits: Fits, model: Any, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if spans_workers(model.distribute_strategy):
        return plain
    if exactness.promise_before_tracing(model).kind == exactness.RESTART_ONLY:
        return plain
    promise, replicas = exactness.promise_for_predict(model), Replicas(model.distribute_strategy)
    return GuardedPredict(
        plain, replicas, WatchedSteps(fits, "predict"), promise, fits.session.handover.guarding.inexact
    )


def _hide_our_frames() -> None:
    """Hide oomph's frames in tracebacks, as Keras hides its own."""
    hidden = KERAS.hidden_paths
    if not support.lacks(Feature.TRACEBACKS):
        patch(*hidden.place, (*hidden.value(), PACKAGE))


def _nothing() -> None:
    """Do nothing."""


def _fail_open(fits: Fits, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"))
        fits.say(f"{type(error).__name__}: {error}; the script continues")


def _version() -> str:
    try:
        return str(KERAS.version.value())
    except ImportError:
        return "?"
