"""Beginning: what a fit was like when it began. Compared with a checkpoint, it tells what has been edited since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.recovery.checkpoint import Checkpoint
from oomph.tensorflow import provenance
from oomph.tensorflow.callbacks import plain_attributes
from oomph.tensorflow.provenance import DATA, SCRIPT, STRUCTURE, Facts


class Beginning:
    """Taken before anything of an earlier attempt is put back.

    Args:
        model: the compiled model.
        arguments: those of `fit`.
        callbacks: the user's own.
    """

    def __init__(self, model: Any, arguments: Mapping[str, Any], callbacks: list[Any]) -> None:
        self._model, self._callbacks = model, callbacks
        self._facts = provenance.facts_of(model, arguments)
        self._attributes: list[dict[str, Any]] = []
        self.learning_rate = _learning_rate(model.optimizer)
        """What the script sets before the fit; None for a schedule."""

    def callbacks_began(self) -> None:
        """The user's callbacks have had their `on_train_begin`: what they change from now on is state."""
        self._attributes = [plain_attributes(callback) for callback in self._callbacks]

    def moved_callbacks(self) -> list[list[str]]:
        """For each callback the attributes that are no longer as they were; only of those whose state is not known."""
        pairs = zip(self._callbacks, self._attributes, strict=False)
        return [[n for n, v in plain_attributes(c).items() if n not in b or b[n] != v] for c, b in pairs]

    def facts(self, epochs: Any) -> Facts:
        """Everything that is known; `epochs`: Keras' iterator over the data, or None as long as there is none."""
        if epochs is None or "elements of the data" in self._facts[DATA]:
            return self._facts
        self._facts[DATA] |= provenance.data_facts(epochs)
        return self._facts

    def compared(self, checkpoint: Checkpoint, fingerprint: str) -> str:
        """How this fit stands to the one of a checkpoint.

        "same"; "edited": the script is another, the variables are the same; "another model": the script is another and
        so is the model; "unstable": the script is the same and has made another model or optimizer all the same.
        """
        structure = self.changes(checkpoint, STRUCTURE)
        if checkpoint.meta["fingerprint"] == fingerprint and not structure:
            return "same"
        if not self.script_was_edited(checkpoint):
            return "unstable"
        return "another model" if structure else "edited"

    def changes(self, checkpoint: Checkpoint, *groups: str) -> list[str]:
        """What is different from the fit of a checkpoint, in words; in these groups of facts, or in all."""
        return provenance.changes(_made_by(checkpoint), self._facts, *groups)

    def script_was_edited(self, checkpoint: Checkpoint) -> bool:
        """Whether the script, or the arguments it was called with, are others."""
        return bool(provenance.changes(_made_by(checkpoint), self._facts, SCRIPT))

    def keep_edited_learning_rate(self, checkpoint: Checkpoint) -> str:
        """After a restore: the learning rate of an edited script is meant; returns what was done, in words."""
        before, now = checkpoint.meta.get("learning_rate"), self.learning_rate
        if None in (before, now) or before == now or not self.script_was_edited(checkpoint):
            return ""
        _innermost(self._model.optimizer).learning_rate = now
        return f"learning rate: {before:g} → {now:g}"


def _made_by(checkpoint: Checkpoint) -> Facts:
    made_by: Facts = checkpoint.meta.get("made_by", {})
    return made_by


def _learning_rate(optimizer: Any) -> float | None:
    rate: Any = getattr(_innermost(optimizer), "_learning_rate", None)
    return float(rate.numpy()) if hasattr(rate, "numpy") else None


def _innermost(optimizer: Any) -> Any:
    """The optimizer within one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)
