"""Which layers of a model are trained, and by which compilation: callbacks may change both within a fit."""

from __future__ import annotations

from typing import Any


class Trained:
    """A model at the beginning of its training.

    Args:
        model: the compiled model.
    """

    def __init__(self, model: Any) -> None:
        self._compiled = _compilation(model)
        self._function = model.train_function

    def is_compiled_anew(self, model: Any) -> bool:
        """Whether the model has been compiled since."""
        return any(one is not other for one, other in zip(_compilation(model), self._compiled, strict=True))

    def now(self, model: Any) -> dict[str, Any]:
        """Whether each layer is trained now, and whether the train function has been made anew, fit for JSON."""
        layers = [bool(layer.trainable) for layer in model._flatten_layers()]
        return {"layers": layers, "made_anew": model.train_function is not self._function}


def is_made_anew(kept: Any) -> bool:
    """Whether the train function was made anew within the fit, and so was traced with what had changed by then."""
    return isinstance(kept, dict) and bool(kept.get("made_anew"))


def restore(model: Any, kept: Any) -> None:
    """Let those layers be trained that were; before the first step, so that it is traced for them."""
    if not isinstance(kept, dict):
        return
    layers = model._flatten_layers()
    wanted = kept.get("layers", [])
    if len(wanted) != len(layers) or all(
        bool(layer.trainable) == one for layer, one in zip(layers, wanted, strict=True)
    ):
        return
    for layer, one in zip(layers, wanted, strict=True):  # a layer comes before those in it
        layer.trainable = bool(one)
    if kept.get("made_anew"):
        model.make_train_function(force=True)


def _compilation(model: Any) -> tuple[Any, ...]:
    return getattr(model, "optimizer", None), getattr(model, "_compile_loss", None)
