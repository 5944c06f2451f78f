"""Numbers the fits and loops that start at the same place, so that a later attempt recognises each of them.

A script runs once, from its first line, so the second call at a place is the second one in every attempt. A cell of a
notebook may run again in the same kernel. The fits of that execution are new: they take over the numbers of fits that
did not finish, but never the results that a dead kernel left when it ran the cell again itself. Without ids, a cell
that runs again looks like another one with the same text, so its fit resumes if the dead kernel was interrupted there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Visit(NamedTuple):
    """One call at a place."""

    number: int
    """The number of the call among those at the same place, counted from 0."""
    is_anew: bool = False
    """True if the cell has run before in this kernel, so that the call must not resume an earlier fit."""


class Visits:
    """The calls of this process at each place.

    Args:
        execution: a function that returns the number of the running cell execution; None in a script.
    """

    def __init__(self, execution: Callable[[], int] | None) -> None:
        self._execution = execution
        self._next: dict[str, Visit] = {}
        """The visit that comes next at each place in the same execution."""
        self._latest: dict[tuple[str, str], int] = {}
        """The latest execution that reached each place, by place and cell: several cells may share a statement."""
        self._finished: set[tuple[str, int]] = set()

    def next(
        self,
        place: str,
        is_recovering: bool,
        is_taken: Callable[[str, int], bool],
        cell: str = "",
        was_interrupted: Callable[[str, int], bool] = lambda place, number: False,
    ) -> Visit:
        """Return the visit that begins at this place.

        Args:
            is_recovering: True while fits may still get the results of earlier attempts.
            is_taken: given a place and a number, returns True if an earlier attempt left a fit there that this visit
                must not replace.
            cell: what identifies the cell when it runs again.
            was_interrupted: given a place and a number, returns True if an earlier attempt left that fit unfinished,
                and this cell may be another one with the same text.
        """
        here = 0 if self._execution is None else self._execution()
        visit, before = self._next.get(place, Visit(0)), self._latest.get((place, cell))
        if before is None:
            visit = Visit(visit.number)
        elif before != here:
            visit = Visit(0, is_anew=True)
        self._latest[place, cell] = here
        number = visit.number
        passes = self._execution is not None and (visit.is_anew or not is_recovering)
        while ((place, number) in self._finished or (passes and is_taken(place, number))) and not was_interrupted(
            place, number
        ):
            number += 1
        self._next[place] = Visit(number + 1, visit.is_anew)
        return Visit(number, visit.is_anew and not was_interrupted(place, number))

    def finish(self, place: str, number: int) -> None:
        """Record that the fit of a visit has finished, or that its earlier result was returned."""
        self._finished.add((place, number))

    def give_back(self, place: str) -> None:
        """Forget the visits to a place whose latest fit was turned away before its first step and may be retried."""
        self._next.pop(place, None)
        self._latest = {key: execution for key, execution in self._latest.items() if key[0] != place}
