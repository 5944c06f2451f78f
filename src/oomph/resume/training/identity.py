"""Identity of a fit: its place in the script, its occurrence there, a fingerprint of model and optimizer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.resume.training.call_place import call_site

__all__ = ["FitIdentity", "call_site", "fingerprint"]


@dataclass(frozen=True)
class FitIdentity:
    """One fit of the owner process."""

    ordinal: int
    """Its number in the run. A fit recognised as that of a checkpoint takes the checkpoint's number."""
    site: str
    """Place of the call in the script: "train.py:42"."""
    fingerprint: str
    """A digest of what must match for a saved state to belong to this fit."""
    place: str = ""
    """A digest of the place in the source, independent of line numbers."""
    occurrence: int = 0
    """Number of earlier fits of this process at that place."""
    outline: str = ""
    """The place without the constants in its statements, which an edit may have changed."""

    @property
    def key(self) -> str:
        """The key of the fit: the same in every attempt that reaches it by the same path."""
        return f"{self.place}-{self.occurrence}"

    @property
    def witness_key(self) -> int:
        """The key and the number of the fit in 64 bits."""
        digest = hashlib.blake2b(f"{self.key} {self.ordinal}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "little")


def fingerprint(model: Any) -> str:
    """A short hash over the classes of the layers, the shapes of the weights and the configuration of the optimizer.

    Weights that do not exist yet (a model that Keras builds at its first batch) are left out.
    """
    facts = {
        "model": type(model).__name__,
        "layers": [type(layer).__name__ for layer in KERAS.flatten_layers.call(model)],
        "optimizer": _optimizer_facts(model.optimizer),
    }
    if model.built:
        facts["weights"] = [[list(v.shape), str(v.dtype)] for v in model.weights]
        facts["trainable"] = len(model.trainable_variables)
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _optimizer_facts(optimizer: Any) -> Any:
    """The optimizer's configuration without its learning rate, which schedules and callbacks change as they go."""
    try:
        config = dict(optimizer.get_config())
    except Exception:
        return type(optimizer).__name__  # an optimizer without a configuration is known by its class
    config.pop("learning_rate", None)
    config.pop("name", None)
    return [type(optimizer).__name__, config]
