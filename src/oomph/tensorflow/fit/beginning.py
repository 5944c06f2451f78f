"""Beginning: what a fit was like when it began. Compared with a checkpoint, it tells what has been edited since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.recovery.checkpoint.container import Checkpoint
from oomph.recovery.checkpoint.store import Record
from oomph.tensorflow.training import provenance
from oomph.tensorflow.training.provenance import CALLBACKS, CODE, CONFIGURATION, DATA, SCRIPT, STRUCTURE, TURN, Facts


class Beginning:
    """Taken before anything of an earlier attempt is put back.

    Args:
        model: the compiled model.
        arguments: those of `fit`.
        callbacks: the user's own.
        values: fingerprints of the data.
        turn: what tells this turn of the script's loops from others.
    """

    def __init__(
        self,
        model: Any,
        arguments: Mapping[str, Any],
        callbacks: list[Any],
        values: Mapping[str, Any] | None = None,
        turn: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        self._facts = provenance.facts_of(model, arguments, callbacks, values, turn)
        self.learning_rate = _learning_rate(model.optimizer)
        """What the script sets before the fit; None for a schedule."""
        if self.learning_rate is not None:
            self._facts[TURN]["learning rate"] = self.learning_rate

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

    def changes(self, checkpoint: Checkpoint | Record, *groups: str) -> list[str]:
        """What is different from the fit of a checkpoint, in words; in these groups of facts, or in all."""
        return provenance.changes(_made_by(checkpoint), self._facts, *groups)

    def meant(self, checkpoint: Checkpoint) -> list[str]:
        """What is different on purpose, and may change the result: by an edit of the script, or of what it reads."""
        groups = (CODE, CONFIGURATION, DATA, *([CALLBACKS] if self.script_was_edited(checkpoint) else []))
        return [change for change in self.changes(checkpoint, *groups) if not change.startswith("initial_epoch")]

    def edited_code(self, checkpoint: Checkpoint | Record) -> list[str]:
        """Which files of the script have other code, in words."""
        return self.changes(checkpoint, CODE)

    def script_was_edited(self, checkpoint: Checkpoint | Record) -> bool:
        """Whether the script, or the arguments it was called with, are others."""
        return bool(provenance.changes(_made_by(checkpoint), self._facts, SCRIPT))

    def keep_edited_learning_rate(self, checkpoint: Checkpoint) -> str:
        """After a restore: the learning rate of an edited script is meant; returns what was done, in words."""
        before, now = checkpoint.meta.get("learning_rate"), self.learning_rate
        if None in (before, now) or before == now or not self.script_was_edited(checkpoint):
            return ""
        _innermost(self._model.optimizer).learning_rate = now
        return f"learning rate: {before:g} → {now:g}"


def _made_by(checkpoint: Checkpoint | Record) -> Facts:
    made_by: Facts = checkpoint.meta.get("made_by", {})
    return made_by


def _learning_rate(optimizer: Any) -> float | None:
    rate: Any = getattr(_innermost(optimizer), "_learning_rate", None)
    return float(rate.numpy()) if hasattr(rate, "numpy") else None


def _innermost(optimizer: Any) -> Any:
    """The optimizer within one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)
