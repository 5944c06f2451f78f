"""Applies, in the script process, the changes that the supervisor decided on for this attempt."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from oomph.journal.events import GuardFailed
from oomph.keras_bridge import models
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import patch
from oomph.script.session import Session


def make(session: Session) -> None:
    """Make this attempt's changes before the script builds anything, and report any that are not possible."""
    for name, (needs, change) in _CHANGES.items():
        if session.handover.changed(name):
            lacking = support.lacks(needs) if needs else ""
            if not lacking:
                change()
                continue
            session.journal.write(GuardFailed(reason=f"{name}: {lacking}"))
            session.say(f"{name} is not possible: {lacking}")


def _prefetch_one_batch_at_most() -> None:
    """Limit `Dataset.prefetch(n)` and AUTOTUNE to one batch, since each additional batch takes up host memory."""
    cls = tf.data.Dataset
    prefetch = cls.prefetch

    @functools.wraps(prefetch)
    def prefetch_one(self: Any, buffer_size: Any, name: Any = None) -> Any:
        return prefetch(self, 1, name)

    patch(cls, "prefetch", prefetch_one)


def _set_precision() -> None:
    """Use bfloat16, which needs no loss scaling, so optimizer variables and checkpoints keep their format."""
    KERAS.set_dtype_policy.value()("mixed_bfloat16")


def _switch_xla_off() -> None:
    """Disable XLA, including TensorFlow's own clustering, regardless of the script's compile options."""
    tf.config.optimizer.set_jit(False)
    trainer, function = KERAS.trainer_of_any_backend.value(), TENSORFLOW.function.value()
    compile_model, initialise = trainer.compile, function.__init__

    @functools.wraps(compile_model)
    def compile_without_xla(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = compile_model(self, *args, **kwargs)
        models.switch_off_xla(self)
        return result

    @functools.wraps(initialise)
    def initialise_without_xla(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        TENSORFLOW.jit_compile.put(self, None)

    patch(trainer, "compile", compile_without_xla)
    patch(function, "__init__", initialise_without_xla)


_CHANGES = {
    "prefetch": (None, _prefetch_one_batch_at_most),
    "precision": (Feature.PRECISION, _set_precision),
    "no-xla": (Feature.NO_XLA, _switch_xla_off),
}
"""Maps each change to the feature that it requires and the function that makes it."""
