"""Numbers the fits and loops that start at the same place, which is how a later attempt recognises each of them.

A script runs once, from its first line, so the second call at a place is the second one in every attempt. A cell of a
notebook may run again in the same kernel. The fits of that execution are new ones: they take the numbers of those that
did not finish, and never the result that a dead kernel left for a second execution of its own. Without ids, a cell that
runs again cannot be told from another with the same text, so its fit resumes if the dead kernel was interrupted in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Visit(NamedTuple):
    """One call at a place."""

    number: int
    """The number of the call among all that lead there in the same way, counted from 0."""
    is_anew: bool = False
    """True if the cell has run before in this kernel, so that the call must not resume an earlier one."""


class Visits:
    """The calls of this process at each place.

    Args:
        execution: returns the number of the cell execution that is running, or None in a script.
    """

    def __init__(self, execution: Callable[[], int] | None) -> None:
        self._execution = execution
        self._next: dict[str, Visit] = {}
        """The visit that comes next at each place in the same execution."""
        self._latest: dict[tuple[str, str], int] = {}
        """The latest execution that came to each place, for each cell that has the same statement."""
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
            is_recovering: True while results of earlier attempts may stand for fits of this one.
            is_taken: tells whether an earlier attempt has left a fit that a visit must not displace, given its place
                and number.
            cell: what the cell is known by when it runs again.
            was_interrupted: tells whether the cell may be another one with the same text, whose fit an earlier attempt
                left unfinished, given its place and number.
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
        """Forget the visits to a place whose latest fit was refused before its first step, and may be tried again."""
        self._next.pop(place, None)
        self._latest = {key: execution for key, execution in self._latest.items() if key[0] != place}
