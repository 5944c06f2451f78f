"""Which fit this is: its call site, its ordinal, and a fingerprint of model and optimizer."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

_INTERNAL = (
    os.path.join("keras", "src"),
    os.path.join("tensorflow", "python"),
    os.path.join("tensorflow", "dtensor"),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
)


@dataclass(frozen=True)
class FitIdentity:
    """One fit of the owner process, the same in every attempt of a run."""

    ordinal: int
    """How many fits the process started before this one."""
    site: str
    """Where the script calls it: "train.py:42"."""
    fingerprint: str
    """Of what must be the same for a saved state to belong to it."""


def call_site() -> str:
    """The file and line of the script's own code that is calling Keras."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and any(part in frame.f_code.co_filename for part in _INTERNAL):
        frame = frame.f_back
    if frame is None:
        return "?"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def fingerprint(model: Any) -> str:
    """A short hash over the classes of the layers, the shapes of the weights and the configuration of the optimizer.

    Weights that do not exist yet (a model that Keras builds at its first batch) are left out.
    """
    facts = {
        "model": type(model).__name__,
        "layers": [type(layer).__name__ for layer in model._flatten_layers()],
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
