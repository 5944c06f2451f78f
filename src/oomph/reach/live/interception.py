"""Replaces the calls that start training in Keras 3: `fit`, `train_on_batch`, and a custom loop's optimizer step."""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Sequence
from typing import Any

from oomph.errors import UnsupportedError
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.runtime.patching import patch
from oomph.reach.channel import Channel
from oomph.reach.live.arrival import Arrivals
from oomph.reach.request import FIT, LOOP, ON_BATCH


def install(trainer: Any, channel: Channel) -> Arrivals:
    """Intercept every training call of this process, and return the handler.

    Raises UnsupportedError if Keras lacks a name that is needed for this.
    """
    try:
        cls, optimizer = KERAS.trainer.value(), KERAS.optimizer.value()
    except ImportError as error:
        raise UnsupportedError(str(error)) from error
    arrivals = Arrivals(channel)
    for owner, name in ((cls, "fit"), (cls, "train_on_batch"), (optimizer, "apply")):
        if not callable(getattr(owner, name, None)):
            raise UnsupportedError(f"no {owner.__name__}.{name}")
    _replace_training(cls, "fit", FIT, arrivals)
    _replace_training(cls, "train_on_batch", ON_BATCH, arrivals)
    _replace_apply(optimizer, arrivals)
    _replace_compile(KERAS.trainer_of_any_backend.value(), arrivals)
    return arrivals


def _replace_training(cls: Any, name: str, kind: str, arrivals: Arrivals) -> None:
    original = getattr(cls, name)
    signature = inspect.signature(inspect.unwrap(original))

    @functools.wraps(original)
    def training(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = _bound(signature, self, args, kwargs) if getattr(self, "compiled", False) else None
        if arguments is None or arrivals.is_nested():
            return original(self, *args, **kwargs)  # Keras itself reports an invalid call
        arrivals.begin(kind, self, self.optimizer, arguments, lambda: self)
        with arrivals.training():
            return original(self, *args, **kwargs)

    patch(cls, name, training)


def _replace_compile(cls: Any, arrivals: Arrivals) -> None:
    """Record the `jit_compile` passed to `compile`: without a visible GPU, "auto" becomes False and is lost."""
    original = cls.compile
    signature = inspect.signature(inspect.unwrap(original))

    @functools.wraps(original)
    def compile_noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = _bound(signature, self, args, kwargs)
        if arguments is not None:
            arrivals.compiles(self, arguments.get("jit_compile", "auto"))
        return original(self, *args, **kwargs)

    patch(cls, "compile", compile_noted)


def _bound(signature: inspect.Signature, model: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """Return the arguments of a call by name, or None if Keras would reject them."""
    try:
        bound = signature.bind(model, *args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return dict(list(bound.arguments.items())[1:])


def _replace_apply(optimizer: Any, arrivals: Arrivals) -> None:
    original = optimizer.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not arrivals.is_nested():
            given = trainable_variables if trainable_variables is not None else KERAS.optimizer_variables.get(self, ())
            arguments = {"grads": grads, "trainable_variables": list(given)}
            arrivals.begin(LOOP, self, self, arguments, lambda: model_of(arguments["trainable_variables"]))
        return original(self, grads, trainable_variables, *args, **kwargs)

    patch(optimizer, "apply", apply)


# -- the model being trained ------------------------------------------------------------------------------------------


def model_of(variables: Sequence[Any]) -> Any:
    """Find the smallest live model whose trainable variables include all of these; None if there is none."""
    wanted = {_identity(variable) for variable in variables}
    cls = KERAS.trainer.value()
    found: list[tuple[int, int, Any]] = []
    for value in gc.get_objects():
        if issubclass(type(value), cls):  # isinstance would query proxies, which may fail
            held = {_identity(variable) for variable in getattr(value, "trainable_variables", ())}
            if wanted and wanted <= held:
                found.append((len(held), len(found), value))
    return min(found)[2] if found else None


def _identity(variable: Any) -> int:
    """Return a number that is the same for a Keras variable and the TensorFlow variable inside it."""
    return id(KERAS.variable_value.get(variable, variable))
