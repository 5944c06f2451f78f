"""A fit's identity: where the script calls it, the number of earlier calls there, and a fingerprint of what it trains.

Together with the fit's arguments and data, these show whether an earlier attempt already started it. There are four
outcomes:

- The fit's end state is returned, because the fit was finished and nothing has changed.
- The fit resumes from its checkpoint, even if the script was edited, since edits are intentional.
- The fit trains from the start, because it is unknown, or the script took a different path.
- The run stops with the checkpoint intact: the script is unchanged and at the same point, yet the checkpoint belongs to
  a different model or different data. Only the user can tell what happened, and starting over requires a flag.
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
    """Identifies one fit of the owner process."""

    ordinal: int
    """The fit's number in the run. A fit that is recognised as a checkpoint's fit gets the checkpoint's number."""
    site: str
    """The file and line of the call in the script: "train.py:42"."""
    fingerprint: str
    """A digest of everything that must match if a saved state is to belong to this fit."""
    place: str = ""
    """A digest of the chain of calls that leads to the fit, independent of line numbers."""
    occurrence: int = 0
    """The number of earlier fits in this process with the same chain of calls."""
    outline: str = ""
    """The same digest computed without constants, since an edit may have changed those."""
    cell: str | None = None
    """The id of the notebook cell that makes the call, or "" if unknown; None in a script."""

    @property
    def key(self) -> str:
        """The fit's key, which is the same in every attempt that reaches the fit along the same path."""
        return visit_key(self.place, self.occurrence)

    @property
    def witness_key(self) -> int:
        """A 64-bit digest of the fit's key and number."""
        digest = hashlib.blake2b(f"{self.key} {self.ordinal}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "little")


def visit_key(place: str, occurrence: int) -> str:
    """Return the key of the fit that starts at a visit to a place; visits are counted from 0."""
    return f"{place}-{occurrence}"


def fingerprint(model: Any) -> str:
    """Compute a short hash of the layers' classes, the weights' shapes and the optimizer's configuration.

    Weights are left out if the model is not built yet: Keras builds some models on their first batch.
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
        return type(optimizer).__name__  # an optimizer without a configuration is identified by its class
    config.pop("learning_rate", None)
    config.pop("name", None)
    return [type(optimizer).__name__, config]


_ANOTHER_MODEL = "a different model or optimizer"
Differences = Callable[..., list[Reason]]
"""Returns the differences in the given groups of facts."""


class Verdict(Enum):
    """The ways to handle a fit that is about to start."""

    TRAIN = "train"
    RESUME = "resume"
    RETURN = "return"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Recognised:
    """The verdict on a fit that is about to start, and the reason for it."""

    verdict: Verdict
    reason: str = ""
    """The reason for the verdict: a description of the differences."""
    another_path: bool = False
    """True if the script took a different path than before, and therefore trains something else now."""


@dataclass(frozen=True)
class KnownState:
    """A state that an earlier attempt saved for the same call."""

    finished: bool
    edited: bool
    """True if the script, its arguments, or the parts of its environment that it reads have changed since."""
    same_fingerprint: bool
    differences: Differences


def recognise(known: KnownState | None, took_another_path: bool) -> Recognised:
    """Decide how to handle a fit.

    Args:
        known: the latest state saved for this call, if any.
        took_another_path: True if an earlier fit in this process was not the one expected at that point.
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
