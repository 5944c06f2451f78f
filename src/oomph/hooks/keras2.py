"""Guards the steps of Keras 2, which scripts use as `tf_keras`, or as `tf.keras` up to TensorFlow 2.15.

`make_train_function` and `make_test_function` return a guarded function in place of Keras' own, so a batch that does
not fit is divided as in Keras 3. Fits are not checkpointed: their position in the data is kept in another way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

import tensorflow as tf

from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.step.division import choice_of
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.step_protocol import PlainStep, Step, StepWatch
from oomph.hooks.process_fits import fits_of
from oomph.hooks.unguarded import TrainingOutsideFit, WatchedSteps
from oomph.journal.events import GuardFailed, GuardInstalled, UnguardedTraining
from oomph.keras_bridge.batch.replicas import outside_strategy_scope
from oomph.keras_bridge.dialects import Dialect, dialect_of, keras_2
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.runtime.errors import being_handled
from oomph.keras_bridge.runtime.patching import patch
from oomph.protocol.replacements import unguarded_in_words
from oomph.resume.training.fits import Fits
from oomph.script.script_line import calling
from oomph.script.session import Session

_STEPS = {"train_function": "train_step", "test_function": "test_step"}


def install(training: ModuleType, session: Session) -> bool:
    """Guard the models of a Keras 2, and return True; False if its version is not supported.

    Args:
        training: the module with its class `Model`, which has just been imported.
    """
    keras = keras_2(training.__name__.removesuffix(".engine.training"))
    lacking = support.lacks(Feature.GUARD, keras.names) or support.lacks(Feature.EXACT_STEP, keras.names)
    if lacking:
        session.say(f"{lacking}, so its fits are only supervised: they are guarded from Keras 2.12 on")
        return False
    fits = fits_of(session)
    for name in _STEPS:
        _replace_maker(keras, fits, name)
    for optimizer in keras.optimizers:
        _watch_loops(optimizer, fits)
    session.journal.write(GuardInstalled(keras=_version_of(training), tensorflow=str(getattr(tf, "__version__", ""))))
    return True


def _replace_maker(keras: Dialect, fits: Fits, name: str) -> None:
    """Make `model.make_NAME` return a guarded function instead of Keras' own."""
    maker = f"make_{name}"
    original = getattr(keras.trainer, maker)

    @functools.wraps(original)
    def make(self: Any, force: bool = False) -> Any:
        function = getattr(self, name)
        if function is not None and not force:
            return function
        plain = original(self, force)
        if fits.is_over:
            return plain
        try:
            function = _guarded(fits, self, name, plain)
        except Exception as error:  # an error in oomph itself must not stop training
            fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"))
            return plain
        setattr(self, name, function)
        return function

    patch(keras.trainer, maker, make)


def _guarded(fits: Fits, model: Any, name: str, plain: Callable[[Any], Any]) -> Step:
    trains = name == "train_function"
    watched: StepWatch = _Training(fits) if trains else WatchedSteps(fits, "evaluate")
    promise = exactness.promise_before_tracing(model, _STEPS[name])
    if promise.kind == exactness.RESTART_ONLY:
        if trains:
            fits.say_once(f"a batch of {type(model).__name__} that does not fit is not divided: {promise.reason}")
        return PlainStep(model, plain, lambda: watched)
    step = dialect_of(model).step_of(model, _STEPS[name])
    choice = choice_of(fits.session.handover.guarding)
    with outside_strategy_scope():
        return GuardedStep(model, step, plain, lambda: watched, promise, choice, trains, can_go_back=False)


class _Training(TrainingOutsideFit):
    """Watches the train steps of one model, in a fit or outside."""

    kind = "keras-2"
    words = "guarding the steps of Keras 2: a batch that does not fit is divided, but nothing is checkpointed"

    def __init__(self, fits: Fits) -> None:
        super().__init__(fits, "the train step")


def _watch_loops(optimizer: type, fits: Fits) -> None:
    """Report the first custom loop, which applies gradients outside the steps of models."""
    original: Any = getattr(optimizer, _APPLY)

    @functools.wraps(original)
    def apply_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        # While oomph traces a step, the method of the optimizer itself is replaced; while one runs, errors are handled.
        if not fits.is_over and _APPLY not in vars(self) and not being_handled():
            _tell_loop(fits)
        return original(self, *args, **kwargs)

    apply_gradients.autograph_info__ = {}  # type: ignore[attr-defined]  # AutoGraph does not convert it
    patch(optimizer, _APPLY, apply_gradients)


_APPLY = "apply_gradients"
_LOOP = "a loop of Keras 2"


def _tell_loop(fits: Fits) -> None:
    try:
        line = calling()
        site = "the script" if line is None else line.site
        if fits.warn_once(unguarded_in_words(site, "keras-2"), about=_LOOP):
            fits.note(UnguardedTraining(kind="keras-2", site=site))
    except Exception:
        pass  # a mere remark must not stop training


def _version_of(training: ModuleType) -> str:
    """Return the version of a Keras whose package is still being imported."""
    try:
        return version(training.__name__.partition(".")[0])
    except PackageNotFoundError:  # a nightly build has another name
        return ""
