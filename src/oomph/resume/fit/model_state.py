"""A model's state within a fit, beyond its variables: the changes by callbacks, and the random draws of its steps.

Callbacks may change which layers are trainable, their settings, and how the model is compiled. A fit runs two steps,
one for training and one for validation; both continue counting their random draws in the model's next fit.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from oomph.checkpoint.container import Checkpoint
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.keras_bridge.models import optimizers_of
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.protocol.reasons import Reason, because
from oomph.resume.state import training_state
from oomph.resume.state.training_state import Array

_PLAIN = frozenset((bool, int, float, str, type(None)))


class Trained:
    """A model's settings when training starts, for detecting changes that callbacks make."""

    def __init__(self, model: Any) -> None:
        self._compiled = _compilation(model)
        self._function = model.train_function
        self._settings = _settings(model)

    def is_compiled_anew(self, model: Any) -> bool:
        """True if the model has been recompiled since training started."""
        return any(one is not other for one, other in zip(_compilation(model), self._compiled, strict=True))

    def now(self, model: Any) -> dict[str, Any]:
        """Return which layers are trainable, the changed settings, and whether the train function is new, for JSON."""
        layers = [bool(layer.trainable) for layer in KERAS.flatten_layers.call(model)]
        made_anew = model.train_function is not self._function
        return {"layers": layers, "settings": self._changed(_settings(model)), "made_anew": made_anew}

    def _changed(self, now: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the settings that have changed, by part and name."""
        pairs = {part: (self._settings[part], after) for part, after in now.items() if part in self._settings}
        return {
            part: {name: value for name, value in after.items() if before.get(name) != value}
            for part, (before, after) in pairs.items()
            if before != after
        }


def is_made_anew(kept: Any) -> bool:
    """True if the saved fit recreated its train function, which was then traced with every change made by then."""
    return isinstance(kept, dict) and bool(kept.get("made_anew"))


def restore_changes(model: Any, kept: Any) -> None:
    """Restore which layers are trainable, and the parts' settings. Call this before the first step is traced."""
    if not isinstance(kept, dict):
        return
    parts = _parts(model)
    for key, values in kept.get("settings", {}).items():
        now = _settings_of(parts[key]) if key in parts else {}
        for name, value in values.items():
            if name in now and _is_alike(value, now[name]):
                setattr(parts[key], name, value)
    if _train_those(model, kept.get("layers", [])) and kept.get("made_anew"):
        model.make_train_function(force=True)


def _is_alike(value: Any, now: Any) -> bool:
    """True if a saved value and the current one are both booleans, both numbers, or both strings."""
    kinds = ((bool,), (int, float, type(None)), (str, type(None)))
    return any(type(value) in each and type(now) in each for each in kinds)


def _train_those(model: Any, wanted: list[bool]) -> bool:
    """Set which layers are trainable; return True if this changed any of them."""
    layers = KERAS.flatten_layers.call(model)
    if len(wanted) != len(layers) or all(
        bool(layer.trainable) == one for layer, one in zip(layers, wanted, strict=True)
    ):
        return False
    for layer, one in zip(layers, wanted, strict=True):  # a layer precedes its sublayers
        layer.trainable = bool(one)
    return True


def _settings(model: Any) -> dict[str, dict[str, Any]]:
    """Return the current value of each number or string argument of a model's parts, such as a dropout rate."""
    return {key: _settings_of(part) for key, part in _parts(model).items()}


def _settings_of(part: Any) -> dict[str, Any]:
    held = vars(part)
    return {name: held[name] for name in _names_of(part) if name in held and type(held[name]) in _PLAIN}


def _parts(model: Any) -> dict[str, Any]:
    """Return the layers, optimizers and loss by class and number, since building may add layers of other classes."""
    loss = getattr(model, "loss", None)
    found: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for part in (
        *KERAS.flatten_layers.call(model),
        *optimizers_of(model),
        *([loss] if hasattr(loss, "get_config") else []),
    ):
        name = type(part).__name__
        found[f"{name} {counts[name]}"] = part
        counts[name] += 1
    return found


def _names_of(part: Any) -> frozenset[str]:
    kind: Any = type(part)
    return _names_of_settings(kind)


@functools.lru_cache(maxsize=4096)
def _names_of_settings(kind: Any) -> frozenset[str]:
    """Return the argument names of a Keras class; instances of user-defined classes are captured elsewhere."""
    if not kind.__module__.startswith("keras."):
        return frozenset()
    try:
        return frozenset(inspect.signature(kind.__init__).parameters) - {"name", "dtype", "trainable", "seed"}
    except (TypeError, ValueError):
        return frozenset()


def _compilation(model: Any) -> tuple[Any, ...]:
    return getattr(model, "optimizer", None), KERAS.compile_loss.get(model)


_TRAINING, _VALIDATION = "draws/", "validation/"


def draws_as_arrays(model: Any) -> list[Array]:
    """Return the draw count kept for each random operation in the model's steps, as int64 arrays of shape [3]."""
    return [
        Array(f"{under}{number}", "int64", value)
        for under, step in _steps(model)
        for number, value in enumerate(step.draws.values())
    ]


def hidden_draws(model: Any) -> list[Reason]:
    """Return the reasons why some random operations in the model's steps cannot be restored."""
    return [line for _, step in _steps(model) for line in step.hidden_state()]


def restore_draws(model: Any, checkpoint: Checkpoint) -> list[Reason]:
    """Restore the draw counts of the random operations from a checkpoint; return reasons for any that are lost."""
    kept = {under: training_state.read_arrays(checkpoint, under) for under in (_TRAINING, _VALIDATION)}
    if kept[_VALIDATION]:
        model.make_test_function()
    found = dict(_steps(model))
    for under, step in found.items():
        step.draws.restore([kept[under][str(number)] for number in range(len(kept[under]))])
    training = found.get(_TRAINING)
    drawn = training is not None and training.draws.variables
    return [because("draws-in-kernels")] if drawn and not kept[_TRAINING] else []


def _steps(model: Any) -> Iterator[tuple[str, GuardedStep]]:
    for under, step in ((_TRAINING, model.train_function), (_VALIDATION, model.test_function)):
        if isinstance(step, GuardedStep):
            yield under, step
