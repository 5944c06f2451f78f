"""What the supervisor has decided to change for this attempt, made in the script's process."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from oomph.recovery.script.session import Session


def make(session: Session) -> None:
    """Make the changes that have to be made before the script builds anything; what cannot be made is said."""
    for name, change in _CHANGES.items():
        if session.handover.changed(name):
            try:
                change()
            except (ImportError, AttributeError) as error:
                session.journal.write("guard-failed", reason=f"{name}: {type(error).__name__}: {error}")
                session.say(f"{name} is not possible with this TensorFlow ({error})")


def _prefetch_one_batch_at_most() -> None:
    """`Dataset.prefetch(n)` and AUTOTUNE become one batch: every further one is a batch more in the host's memory."""
    cls = tf.data.Dataset
    prefetch = cls.prefetch

    @functools.wraps(prefetch)
    def prefetch_one(self: Any, buffer_size: Any, name: Any = None) -> Any:
        return prefetch(self, 1, name)

    cls.prefetch = prefetch_one


def _set_precision() -> None:
    """bfloat16 needs no loss scaling: the optimizer's variables, and with them the checkpoint, stay the same."""
    from keras.src.dtype_policies.dtype_policy import set_dtype_policy

    set_dtype_policy("mixed_bfloat16")


def _switch_xla_off() -> None:
    """Whatever the script compiles its model or its function with; TensorFlow's own clustering included."""
    from keras.src.trainers.trainer import Trainer
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    tf.config.optimizer.set_jit(False)
    compile_model, initialise = Trainer.compile, Function.__init__

    @functools.wraps(compile_model)
    def compile_without_xla(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = compile_model(self, *args, **kwargs)
        self.jit_compile = False
        return result

    @functools.wraps(initialise)
    def without_xla(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        self._jit_compile = None

    Trainer.compile, Function.__init__ = compile_without_xla, without_xla


_CHANGES = {
    "prefetch": _prefetch_one_batch_at_most,
    "precision": _set_precision,
    "no-xla": _switch_xla_off,
}
