"""recognise(...) -> Recognised: whether a fit that begins is one that an earlier attempt had begun. Pure.

A fit is taken for another only by its place in the script, its occurrence there, its model, its arguments and its data.
What may follow:

- its end state is returned, if everything is as it was;
- it goes on from its checkpoint, also after an edit of the script, which is meant;
- it trains from its beginning: nothing is known of it, or the script has come another way;
- the run stops with the checkpoint intact: the script is the same and is where it was, yet the checkpoint is not of
  this model or not of these data. Only the user can tell what has happened, and starting over needs a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from oomph.tensorflow.training.provenance import CALLBACKS, CONFIGURATION, DATA, SCRIPT, STRUCTURE, TURN

Differences = Callable[..., list[str]]
"""What differs, in words, in the groups of facts that it is given."""


class Verdict(Enum):
    """What becomes of a fit that begins."""

    TRAIN = "train"
    RESUME = "resume"
    RETURN = "return"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Recognised:
    """What becomes of a fit, and why not better."""

    verdict: Verdict
    reason: str = ""
    """What differs, where something does."""
    another_way: bool = False
    """Whether the script has come another way than before: what is trained now is not what would have been."""


@dataclass(frozen=True)
class Known:
    """A state of an earlier attempt that was saved at the same place and occurrence."""

    finished: bool
    edited: bool
    """Whether the script, or its arguments, are others since."""
    same_fingerprint: bool
    differences: Differences


def recognise(known: Known | None, came_another_way: bool) -> Recognised:
    """What becomes of a fit.

    Args:
        known: the newest state at its place and occurrence, if there is one.
        came_another_way: whether an earlier fit of this process was not the one that was expected there.
    """
    if known is None:
        return Recognised(Verdict.TRAIN)
    return _of_finished(known) if known.finished else _of_interrupted(known, came_another_way)


def _of_finished(known: Known) -> Recognised:
    other_structure = known.differences(STRUCTURE)
    if other_structure and known.edited:
        return Recognised(Verdict.REFUSE, _words([*known.differences(SCRIPT), *other_structure]))
    found = [*other_structure, *known.differences(CONFIGURATION, CALLBACKS, TURN, DATA)]
    if not (found or known.same_fingerprint):
        found = ["another model or optimizer"]
    if found:
        return Recognised(Verdict.TRAIN, _words(found), another_way=not known.edited)
    return Recognised(Verdict.RETURN)


def _of_interrupted(known: Known, came_another_way: bool) -> Recognised:
    found = known.differences(STRUCTURE)
    if found or not known.same_fingerprint:
        reason = _words(found) or "another model or optimizer"
        if came_another_way:
            return Recognised(Verdict.TRAIN, reason, another_way=True)
        if found or not known.edited:
            return Recognised(Verdict.REFUSE, "; ".join([*known.differences(SCRIPT), reason]))
    if known.edited:
        return Recognised(Verdict.RESUME)
    data, others = known.differences(DATA), known.differences(CONFIGURATION, CALLBACKS, TURN)
    if came_another_way and (data or others):
        return Recognised(Verdict.TRAIN, _words([*data, *others]), another_way=True)
    if data:
        return Recognised(Verdict.REFUSE, _words(data))
    return Recognised(Verdict.RESUME)


def _words(found: list[str]) -> str:
    return "; ".join(found[:6]) + (f"; and {len(found) - 6} more" if len(found) > 6 else "")
