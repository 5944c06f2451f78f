"""Finds the state that an earlier attempt saved for a fit that is about to start.

A script reaches its fits along the same path in every attempt, so a fit is recognised by its place and the number of
earlier calls there. The cells of a notebook run in any order and any number of times, and are edited in between, so a
fit in a cell is also recognised by the cell's id, and never gets a state that would undo later training. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from oomph.checkpoint.store import Record

if TYPE_CHECKING:
    from oomph.resume.training.identity import FitIdentity  # which imports Keras

WasEdited = Callable[[Record], bool]
"""Returns True if the script was edited after a state was saved, possibly at the call itself."""


def state_of(
    identity: FitIdentity, records: Sequence[Record], begun: Mapping[int, str], was_edited: WasEdited
) -> Record | None:
    """Return the latest state saved for a fit, preferably its end state, or None if there is none.

    States saved by the current version of the script take precedence over states saved before an edit.

    Args:
        records: the states that earlier attempts saved.
        begun: the fingerprints of this process's fits so far, by their number in the run.
    """
    mine = _in_script(identity, records, was_edited) if identity.cell is None else _in_cell(identity, records, begun)
    return min(mine, key=lambda record: (was_edited(record), not record.finished), default=None)


def _in_script(identity: FitIdentity, records: Sequence[Record], was_edited: WasEdited) -> list[Record]:
    mine = [r for r in records if r.meta.key == identity.key]
    if mine:
        return mine
    same = [r for r in records if r.meta.outline == identity.outline and r.position.fit == identity.ordinal]
    return [r for r in same if was_edited(r)]


def _in_cell(identity: FitIdentity, records: Sequence[Record], begun: Mapping[int, str]) -> list[Record]:
    free = [r for r in records if r.position.fit not in begun and not _is_behind(r, records, begun)]
    here = [r for r in free if not r.meta.cell or not identity.cell or r.meta.cell == identity.cell]
    if any(_place(r) == identity.place for r in records):
        has_own = any(r.meta.cell == identity.cell for r in records)
        return _at_place(identity, here if has_own else free)  # a notebook in an old format gets new ids when reopened
    return _before_edit(identity, here)


def _at_place(identity: FitIdentity, free: Sequence[Record]) -> list[Record]:
    """Return the states of the same call or, since other cells may share its statement, of this cell's first fit."""
    same = [r for r in free if _place(r) == identity.place]
    exact = [r for r in same if r.meta.key == identity.key]
    if exact or not identity.cell:
        return exact
    own = [r for r in same if r.meta.cell == identity.cell]
    return _of_fit(own, min((r.position.fit for r in own), default=None))


def _before_edit(identity: FitIdentity, free: Sequence[Record]) -> list[Record]:
    """Return the states of this fit from before its statement was edited, if it is clear which fit that was."""
    alike = [r for r in free if r.meta.fingerprint == identity.fingerprint]
    same = [r for r in alike if r.meta.outline == identity.outline]
    if not same and identity.cell:
        same = [r for r in alike if r.meta.cell == identity.cell and not r.finished]
    numbers = {r.position.fit for r in same}
    return _of_fit(same, identity.ordinal if len(numbers) > 1 else next(iter(numbers), None))


def _of_fit(records: Sequence[Record], number: int | None) -> list[Record]:
    return [r for r in records if r.position.fit == number]


def _is_behind(record: Record, records: Sequence[Record], begun: Mapping[int, str]) -> bool:
    """True if the state would undo training: a later fit of a model like the record's has already begun.

    An interrupted fit still resumes after a fit that no earlier attempt saved, as it does in an edited script.
    """
    later = {n for n, seen in begun.items() if n > record.position.fit and seen == record.meta.fingerprint}
    return bool(later if record.finished else later & {r.position.fit for r in records})


def _place(record: Record) -> str:
    return (record.meta.key or "").rpartition("-")[0]
