"""FitProof: the witnesses of one fit. The state that they cover is the state of its model."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakKeyDictionary

from oomph.checkpoint.witness import WitnessBoard
from oomph.keras_bridge import fingerprints
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.resume.state import training_state
from oomph.resume.training.proof import Proof, Witnessed

_of_models: WeakKeyDictionary[Any, fingerprints.StateFingerprint] = WeakKeyDictionary()
"""State fingerprints by model: traced once per model, not once per fit."""


class WitnessedFit(Witnessed, Protocol):
    """A fit that leaves witnesses."""

    model: Any


class FitProof(Proof):
    """The witnesses of one fit.

    Args:
        fit: the running fit.
        board: where witnesses are written; None to write none.
    """

    def __init__(self, fit: WitnessedFit, board: WitnessBoard | None) -> None:
        super().__init__(fit, board)
        self._model = fit.model

    def _step_to_measure(self) -> Any:
        return self._model.train_function

    def _newest_state(self) -> fingerprints.StateFingerprint:
        return _of_models.get(self._model) or self._state()

    def _state(self) -> fingerprints.StateFingerprint:
        slots, known = training_state.trained_slots(self._model), _of_models.get(self._model)
        if known is None or not known.is_of(slots):
            known = _of_models[self._model] = fingerprints.StateFingerprint(slots, self._began)
        return known

    def _rate(self) -> float:
        optimizer = getattr(self._model.optimizer, "inner_optimizer", self._model.optimizer)
        rate = KERAS.learning_rate.get(optimizer)
        return float(rate.numpy()) if rate is not None and hasattr(rate, "numpy") else 0.0
