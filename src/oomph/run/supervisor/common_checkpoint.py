"""Finds the checkpoints that not all workers have. All have to resume from the same step, or they wait forever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from oomph.checkpoint.store import State, in_order, is_end, state_of


def saved_in(checkpoints: Path) -> dict[State, str]:
    """Return the names of the checkpoints in a folder by the states that they hold, oldest first."""
    try:
        names = in_order(entry.name for entry in checkpoints.iterdir())
    except OSError:
        return {}
    return {state: name for name in names if (state := state_of(name)) is not None}


def ahead(saved: Sequence[Mapping[State, str]]) -> list[list[str]]:
    """Return, for each worker, the names of the checkpoints that it must not use, since another worker lacks them.

    Within a fit, these are the ones that are newer than the newest one that all have. Older ones are not used anyway.

    Args:
        saved: what `saved_in` returns for each worker.
    """
    common = set.intersection(*(set(each) for each in saved))
    return [[*_newer(each, common), *_ends(each, common)] for each in saved]


def _newer(saved: Mapping[State, str], common: set[State]) -> list[str]:
    steps = [state for state in saved if not is_end(state)]
    newest = max((index for index, state in enumerate(steps) if state in common), default=-1)
    return [saved[state] for state in steps[newest + 1 :]]


def _ends(saved: Mapping[State, str], common: set[State]) -> list[str]:
    return [name for state, name in saved.items() if is_end(state) and state not in common]
