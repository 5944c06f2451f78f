"""Decides at which step all workers of a gang save or stop. Runs in the workers' processes; standard library only.

All workers resume from the same step, so they have to save at the same steps. The first one decides, and announces the
next border between two steps at which all save. Nobody waits for the announcement, and nothing can deadlock: a step
ends only when all workers have taken part in it, so counting steps is enough for all to save at the same one, if they
see the announcement before. How far ahead that has to be depends on where they read it (`border_boards.py`): one step
in memory that all have mapped, some seconds in a folder that several machines share.

A checkpoint counts once every worker has noted its part. A worker that sees an announcement too late does not save
there. Then this checkpoint does not count, and the next one is announced twice as far ahead. Steps are the only clock
that the workers have in common, and the only one that is compared.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple, Protocol

PATIENCE_SECONDS = 60.0
"""The longest time that a checkpoint that is due waits for the one before it. A worker may be unable to save."""
_MOST_LEAD_SECONDS = 64.0
_STOP_SHARE, _MOST_STOP_LEAD_SECONDS = 0.5, 8.0
"""A stop is announced less far ahead than a checkpoint: Ctrl-C waits for 10 s, and schedulers for about 25 s."""
_LOOK_SECONDS = 0.1
"""The time after which the first worker looks again whether another one has been asked to stop."""
_FEWEST_PACES, _MOST_PACES = 3, 9
"""The number of steps whose time is known before anything is announced by it, and of those that count. Pauses, as for
validation, take longer than a step, so the median is used. Several first steps may be slow: until all that count are
known, the shortest is used."""


class BorderDecision(NamedTuple):
    """The latest decision of the first worker. All numbers but the signal are counts of the run's steps.

    A border is the first one between two steps after at least that many steps, since several steps may run at once.
    """

    border: int = 0
    """The border at which all workers save, or 0 for none."""
    common: int = 0
    """The newest checkpoint that all workers have, or 0 if there is none."""
    stop: int = 0
    """The border at which all workers save and stop, or 0 for none."""
    signum: int = 0
    """The signal that makes them stop, or 0."""


class Note(NamedTuple):
    """The message of one worker to the others."""

    saved: int = 0
    """The number of steps in this worker's last checkpoint, or 0 if it has saved none."""
    late: int = 0
    """The last border that this worker had passed when it saw the announcement, or 0 if there is none."""
    asked: int = 0
    """The signal that asks this worker to stop, or 0."""
    stopped: int = 0
    """The last border at which this worker has obeyed such a signal. The first worker knows by this that the note was
    written afterwards."""


class BorderBoard(Protocol):
    """The place where the workers of one attempt read what the others announce and note."""

    lead_seconds: float
    """The time after which all workers certainly see an announcement, or 0 if they see it at once."""

    def announce(self, decision: BorderDecision) -> None:
        """Publish the first worker's decision."""

    def decision(self) -> BorderDecision | None:
        """Return the latest decision that this worker can see, or None if there is none."""

    def write_note(self, note: Note) -> None:
        """Publish what this worker has to say."""

    def notes(self) -> list[Note]:
        """Return what each worker is known to have said, by rank. Only the first worker calls it."""

    def close(self) -> None:
        """Stop reading and writing."""


class Ahead(NamedTuple):
    """The numbers of steps after which the next borders may lie, so that all workers see the announcements before."""

    save: int
    stop: int


def decided(
    before: BorderDecision, notes: Sequence[Note], steps: int, ahead: Ahead, is_due: bool, is_patient: bool = True
) -> BorderDecision:
    """Return the decision at a border after `steps` steps. Pure.

    A border that has been announced stays until the first worker has passed it. Then the next one waits until all have
    noted their part of the checkpoint, or one of them was late. A stop is announced beside it.

    Args:
        before: the latest decision.
        notes: what the workers have to say.
        is_due: True if a checkpoint is due by the time of the next border.
        is_patient: False if the checkpoint has been waiting for too long for the one before it.
    """
    decision = before
    if steps >= before.border:
        saved = {note.saved for note in notes}
        newest = min(saved)
        is_whole = len(saved) == 1 and newest >= before.border
        decision = decision._replace(common=newest or before.common) if is_whole else decision
        is_missed = any(note.late == before.border > 0 for note in notes)
        if is_due and (is_whole or is_missed or not is_patient):
            decision = decision._replace(border=steps + ahead.save)
    signum = next((note.asked for note in notes if note.asked and note.stopped == before.stop), 0)
    if signum and steps >= before.stop:
        decision = decision._replace(stop=steps + ahead.stop, signum=signum)
    is_announced = (decision.border, decision.stop) != (before.border, before.stop)
    return decision if is_announced else before


def _missing(border: int, notes: Sequence[Note]) -> int | None:
    """Return the rank of a worker that has not saved at a border where another has, or None. Pure."""
    newest = max(note.saved for note in notes)
    return next((rank for rank, note in enumerate(notes) if note.saved < border <= newest), None)


class _Pace:
    """The time that a step usually takes."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._seconds: deque[float] = deque(maxlen=_MOST_PACES)

    def arrived(self, steps: int, now: float) -> None:
        """Note that a border was reached."""
        if self._last is not None and steps > self._last[0]:
            self._seconds.append((now - self._last[1]) / (steps - self._last[0]))
        self._last = steps, now

    def steps_in(self, seconds: float) -> int | None:
        """Return the number of steps that take so long, rounded up, or None if that is not known yet."""
        if not seconds:
            return 0
        known = len(self._seconds)
        if known < _FEWEST_PACES:
            return None
        usual = sorted(self._seconds)[known // 2 if known == _MOST_PACES else 0]
        return ceil(seconds / max(usual, 1e-6))


class CommonBorders:
    """The borders at which this worker saves or stops together with the others."""

    def __init__(self, board: BorderBoard, rank: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._board, self._decides, self._clock = board, rank == 0, clock
        self._decision, self._note = BorderDecision(), Note()
        self._passed = 0
        """The number of steps at the last border that this worker has reached."""
        self._is_due = False
        self._lead_seconds, self._pace = board.lead_seconds, _Pace()
        self._late = 0
        self.missing: int | None = None
        """The rank of a worker for whose part of a checkpoint the first one has just given up waiting, or None."""
        self._due_since: float | None = None
        self._looked_at = 0.0

    @property
    def common(self) -> int:
        """The step count of the newest checkpoint that all workers are known to have, or 0."""
        return self._decision.common

    def resumed(self, steps: int) -> None:
        """Record that all workers have resumed from the checkpoint with this step count."""
        self._decision, self._passed = self._decision._replace(common=steps), steps

    def saved(self, steps: int) -> None:
        """Note this worker's part of a checkpoint."""
        self._say(self._note._replace(saved=steps))

    def arrive(self, steps: int, at_once: int, is_due: Callable[[int, float], bool], asked: int) -> None:
        """Decide, or learn what was decided, at a border after `steps` steps.

        Args:
            at_once: the number of steps until the next border.
            is_due: returns True if a checkpoint is due so many steps and seconds from here. Only the first worker
                calls it.
            asked: the signal that asks this worker to stop, or 0.
        """
        if asked != self._note.asked:
            self._say(self._note._replace(asked=asked))
        if not self._decides:
            self._learn()
        self._is_due = self._passed < self._decision.border <= steps
        self._passed = steps
        if self._decides:
            self._decide(steps, at_once, is_due, asked)

    @property
    def is_due(self) -> bool:
        """True if all workers save at the border that was reached last."""
        return self._is_due

    def stop(self, steps: int) -> int:
        """Return the signal that makes all workers stop at this border, or 0. Each is returned once."""
        _, _, border, signum = self._decision
        if not signum or steps < border or border == self._note.stopped:
            return 0
        self._say(self._note._replace(asked=0, stopped=border))
        return signum

    def close(self) -> None:
        """Say and hear nothing more."""
        self._board.close()

    def _learn(self) -> None:
        """Take over the first worker's decision. If its border is already behind this worker, say so."""
        new = self._board.decision()
        if new is None or new == self._decision:
            return
        if new.border != self._decision.border and 0 < new.border <= self._passed:
            self._say(self._note._replace(late=new.border))
        self._decision = new

    def _decide(self, steps: int, at_once: int, is_due: Callable[[int, float], bool], asked: int) -> None:
        now, self.missing = self._clock(), None
        self._pace.arrived(steps, now)
        ahead = self._ahead(at_once)
        if ahead is None:
            return
        due = is_due(ahead.save, self._lead_seconds)
        if not (due or asked or now >= self._looked_at + _LOOK_SECONDS):
            self._due_since = None
            return
        self._looked_at = now
        self._due_since = (self._due_since or now) if due else None
        is_patient = self._due_since is None or now < self._due_since + PATIENCE_SECONDS
        notes = self._board.notes()
        late = max(note.late for note in notes)
        if late > self._late:
            self._late, self._lead_seconds = late, min(2 * self._lead_seconds, _MOST_LEAD_SECONDS)
            return  # from the next border on, announcements are made that far ahead
        new = decided(self._decision, notes, steps, ahead, due, is_patient)
        if not is_patient:
            self.missing = _missing(self._decision.border, notes)
        if new != self._decision:
            self._decision, self._due_since = new, None
            self._board.announce(new)

    def _ahead(self, at_once: int) -> Ahead | None:
        """Return how far ahead borders have to be announced, or None if it is too early to know."""
        save = self._pace.steps_in(self._lead_seconds)
        stop = self._pace.steps_in(min(self._lead_seconds * _STOP_SHARE, _MOST_STOP_LEAD_SECONDS))
        return None if save is None or stop is None else Ahead(max(save, at_once), max(stop, at_once))

    def _say(self, note: Note) -> None:
        self._note = note
        self._board.write_note(note)
