"""Identity of a fit: its place in the script, its occurrence there, a fingerprint of model and optimizer.

With its arguments and its data, these show whether an earlier attempt had begun a fit. The outcomes:

- its end state is returned, if nothing has changed;
- it resumes from its checkpoint, even after an edit of the script, which is intended;
- it trains from the beginning: it is unknown, or the script took another path;
- the run stops with the checkpoint intact: the script is the same and at the same place, yet the checkpoint belongs to
  a different model or different data. Only the user can tell what happened, and starting over needs a flag.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from oomph.keras_bridge.names.keras3 import KERAS
from oomph.protocol.reasons import Reason
from oomph.resume.training.call_place import call_site
from oomph.resume.training.provenance import (
    CALLBACKS,
    CONFIGURATION,
    DATA,
    ENVIRONMENT,
    SCRIPT,
    STRUCTURE,
    TURN,
    listed,
)

__all__ = ["FitIdentity", "call_site", "fingerprint"]


@dataclass(frozen=True)
class FitIdentity:
    """One fit of the owner process."""

    ordinal: int
    """The fit's number in the run. A fit recognised as belonging to a checkpoint gets the checkpoint's number."""
    site: str
    """Place of the call in the script: "train.py:42"."""
    fingerprint: str
    """A digest of everything that must match for a saved state to belong to this fit."""
    place: str = ""
    """A digest of the place in the source, independent of line numbers."""
    occurrence: int = 0
    """Number of earlier fits of this process at that place."""
    outline: str = ""
    """The place without the constants in its statements, since an edit may have changed them."""

    @property
    def key(self) -> str:
        """The key of the fit: the same in every attempt that reaches it by the same path."""
        return f"{self.place}-{self.occurrence}"

    @property
    def witness_key(self) -> int:
        """A 64-bit digest of the key and the number of the fit."""
        digest = hashlib.blake2b(f"{self.key} {self.ordinal}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "little")


def fingerprint(model: Any) -> str:
    """Compute a short hash of the layers' classes, the weights' shapes and the optimizer's configuration.

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
    """Return the optimizer's configuration without its learning rate, which schedules and callbacks change."""
    try:
        config = dict(optimizer.get_config())
    except Exception:
        return type(optimizer).__name__  # an optimizer without a configuration is known by its class
    config.pop("learning_rate", None)
    config.pop("name", None)
    return [type(optimizer).__name__, config]


_ANOTHER_MODEL = "a different model or optimizer"
Differences = Callable[..., list[Reason]]
"""Returns what differs in the given groups of facts."""


class Verdict(Enum):
    """The ways to treat a fit that begins."""

    TRAIN = "train"
    RESUME = "resume"
    RETURN = "return"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Recognised:
    """The verdict on a fit that begins, and the reason for it."""

    verdict: Verdict
    reason: str = ""
    """The reason for the verdict: the differences, in words."""
    another_path: bool = False
    """True if the script took a different path from before, so that it now trains something else."""


@dataclass(frozen=True)
class KnownState:
    """A state that an earlier attempt saved at the same place and occurrence."""

    finished: bool
    edited: bool
    """True if the script, its arguments, or what it reads from its environment have changed since."""
    same_fingerprint: bool
    differences: Differences


def recognise(known: KnownState | None, took_another_path: bool) -> Recognised:
    """Decide what happens to a fit.

    Args:
        known: the newest state at its place and occurrence, if any.
        took_another_path: True if an earlier fit of this process was not the one expected at its place.
    """
    if known is None:
        return Recognised(Verdict.TRAIN)
    return _of_finished(known) if known.finished else _of_interrupted(known, took_another_path)


def _of_finished(known: KnownState) -> Recognised:
    other_structure = known.differences(STRUCTURE)
    if other_structure and known.edited:
        return Recognised(Verdict.REFUSE, listed([*known.differences(SCRIPT, ENVIRONMENT), *other_structure]))
    found = [*other_structure, *known.differences(CONFIGURATION, CALLBACKS, TURN, DATA)]
    if found or not known.same_fingerprint:
        return Recognised(Verdict.TRAIN, listed(found) or _ANOTHER_MODEL, another_path=not known.edited)
    return Recognised(Verdict.RETURN)


def _of_interrupted(known: KnownState, took_another_path: bool) -> Recognised:
    found = known.differences(STRUCTURE)
    if found or not known.same_fingerprint:
        reason = listed(found) or _ANOTHER_MODEL
        if took_another_path:
            return Recognised(Verdict.TRAIN, reason, another_path=True)
        if found or not known.edited:
            return Recognised(Verdict.REFUSE, "; ".join([*map(str, known.differences(SCRIPT, ENVIRONMENT)), reason]))
    if known.edited:
        return Recognised(Verdict.RESUME)
    data, others = known.differences(DATA), known.differences(CONFIGURATION, CALLBACKS, TURN)
    if took_another_path and (data or others):
        return Recognised(Verdict.TRAIN, listed([*data, *others]), another_path=True)
    if data:
        return Recognised(Verdict.REFUSE, listed(data))
    return Recognised(Verdict.RESUME)
