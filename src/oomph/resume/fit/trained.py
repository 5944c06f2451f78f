"""Changes by callbacks to a model within a fit: trainable layers, their settings, its compilation."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from typing import Any

from oomph.keras_bridge.models import optimizers_of
from oomph.keras_bridge.names.keras3 import KERAS

_PLAIN = frozenset((bool, int, float, str, type(None)))


class Trained:
    """The settings of a model at the beginning of its training, to find what callbacks change.

    Args:
        model: the compiled model.
    """

    def __init__(self, model: Any) -> None:
        self._compiled = _compilation(model)
        self._function = model.train_function
        self._settings = _settings(model)

    def is_compiled_anew(self, model: Any) -> bool:
        """True if the model has been compiled since."""
        return any(one is not other for one, other in zip(_compilation(model), self._compiled, strict=True))

    def now(self, model: Any) -> dict[str, Any]:
        """The trainable layers, the changed settings, and whether the train function is new; JSON-ready."""
        layers = [bool(layer.trainable) for layer in KERAS.flatten_layers.call(model)]
        made_anew = model.train_function is not self._function
        return {"layers": layers, "settings": self._changed(_settings(model)), "made_anew": made_anew}

    def _changed(self, now: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The settings that have changed, by part and name."""
        pairs = {part: (self._settings[part], after) for part, after in now.items() if part in self._settings}
        return {
            part: {name: value for name, value in after.items() if before.get(name) != value}
            for part, (before, after) in pairs.items()
            if before != after
        }


def is_made_anew(kept: Any) -> bool:
    """True if the saved fit recreated its train function, which then was traced with the changes so far."""
    return isinstance(kept, dict) and bool(kept.get("made_anew"))


def restore(model: Any, kept: Any) -> None:
    """Restore which layers train, and their settings; call this before the first step is traced."""
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
    """True if a saved value and the current one are both switches, both numbers, or both texts."""
    kinds = ((bool,), (int, float, type(None)), (str, type(None)))
    return any(type(value) in each and type(now) in each for each in kinds)


def _train_those(model: Any, wanted: list[bool]) -> bool:
    """Set which layers are trainable; return True if any changed."""
    layers = KERAS.flatten_layers.call(model)
    if len(wanted) != len(layers) or all(
        bool(layer.trainable) == one for layer, one in zip(layers, wanted, strict=True)
    ):
        return False
    for layer, one in zip(layers, wanted, strict=True):  # a layer precedes its sublayers
        layer.trainable = bool(one)
    return True


def _settings(model: Any) -> dict[str, dict[str, Any]]:
    """The current value of each number and string that a model's parts were created with, such as a dropout rate."""
    return {key: _settings_of(part) for key, part in _parts(model).items()}


def _settings_of(part: Any) -> dict[str, Any]:
    held = vars(part)
    return {name: held[name] for name in _names_of(part) if name in held and type(held[name]) in _PLAIN}


def _parts(model: Any) -> dict[str, Any]:
    """Layers, optimizers and loss, by class and number within the class: building may add layers of other classes."""
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
    """The argument names of a Keras class; objects of user classes are captured elsewhere."""
    if not kind.__module__.startswith("keras."):
        return frozenset()
    try:
        return frozenset(inspect.signature(kind.__init__).parameters) - {"name", "dtype", "trainable", "seed"}
    except (TypeError, ValueError):
        return frozenset()


def _compilation(model: Any) -> tuple[Any, ...]:
    return getattr(model, "optimizer", None), KERAS.compile_loss.get(model)
