"""The facts of a loop at its start: they tell which loop a checkpoint belongs to, and what was edited since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.checkpoint.store import Record
from oomph.resume.loop.roots import Root
from oomph.resume.loop.source import Source
from oomph.resume.loop.variables import LoopVariables
from oomph.resume.training import provenance
from oomph.resume.training.provenance import CONFIGURATION, DATA, ENVIRONMENT, SCRIPT, SETTINGS, STRUCTURE, TURN, Facts
from oomph.resume.training.recognition import Recognised, Verdict


def facts_of(
    roots: list[Root],
    variables: LoopVariables,
    source: Source,
    epochs: Sequence[int] | None,
    settings: dict[str, str],
    turn: dict[str, Any],
) -> Facts:
    """The facts that identify a loop, taken before anything is restored."""
    weights = {f"weights of {root}": shapes for root in roots if (shapes := variables.shapes(root.name))}
    return {
        **provenance.facts_around(),
        STRUCTURE: weights,
        CONFIGURATION: {"epochs": None if epochs is None else str(epochs)},
        SETTINGS: settings,
        TURN: turn,
        DATA: {
            "kind of data": type(source.dataset).__name__,
            "elements of the data": str(getattr(source.dataset, "element_spec", None)),
            "batches in an epoch": source.length(),
        },
    }


def recognised(record: Record | None, facts: Facts, came_another_way: bool) -> Recognised:
    """Decide what happens to a loop, given the newest state of an earlier attempt at its place.

    Args:
        record: that state; None if there is none.
        facts: the facts of the loop at its start.
        came_another_way: whether an earlier fit or loop was not the one expected at its place.
    """
    if record is None:
        return Recognised(Verdict.TRAIN)
    before, edited = record.meta.made_by, was_edited(record, facts)
    structure = provenance.changes(before, facts, STRUCTURE)
    if record.finished or (structure and came_another_way):
        return Recognised(Verdict.TRAIN, provenance.listed(structure) or "a fit and not a loop", another_way=True)
    if structure:
        return Recognised(Verdict.REFUSE, provenance.listed(structure))
    others = provenance.changes(before, facts, TURN, DATA)
    if others and not edited:
        return Recognised(Verdict.TRAIN, provenance.listed(others), another_way=True)
    return Recognised(Verdict.RESUME)


def was_edited(record: Record, facts: Facts) -> bool:
    """True if the script has changed since."""
    return bool(provenance.changes(record.meta.made_by, facts, SCRIPT, ENVIRONMENT))


def other_data(before: Facts, now: Facts) -> bool:
    """True if the data differ from those of the checkpoint, after an edit of the script."""
    return bool(provenance.changes(before, now, DATA))
