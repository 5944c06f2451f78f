"""Decides at which step all workers of a gang save or stop. Runs in the workers' processes; standard library only.

All workers resume from the same step, so they have to save at the same steps. The first one decides, and writes the
next border between two steps to a small file that all of them have mapped into memory. A step ends only when all
workers have taken part in it. A worker that reaches the border has therefore taken a step to which the first one
contributed after it had decided: the decision is there to be read, nobody waits for it, and nothing can deadlock. If
the script's steps do not wait for one another, a worker may miss the border: then this checkpoint does not count.

A checkpoint counts once every worker has noted its part in the same file.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import xor
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import open_own

BORDERS = "borders"
"""The name of the file, in the run directory of the first worker."""
PATIENCE_SECONDS = 60.0
"""The longest time that a checkpoint that is due waits for the one before it. A worker may be unable to save."""
_LOOK_SECONDS = 0.1
"""The time after which the first worker looks again whether another one has been asked to stop."""
_RECORD = struct.Struct("<5q")
"""The attempt, three numbers, and a checksum: a record that is read while it is being written is ignored."""


class BorderDecision(NamedTuple):
    """The latest decision of the first worker. All numbers are counts of the run's steps."""

    border: int = 0
    """The step before which all workers save, or 0 for none."""
    common: int = 0
    """The newest checkpoint that all workers have, or 0 if there is none."""
    stop: int = 0
    """The signal that makes all workers save and stop at the border, or 0."""


class Note(NamedTuple):
    """The message of one worker to the others."""

    saved: int = 0
    """The last border at which this worker has saved, or 0 if there is none."""
    asked: int = 0
    """The signal that asks this worker to stop, or 0."""


def decided(
    before: BorderDecision, notes: Sequence[Note], steps: int, following: int, is_due: bool, is_patient: bool = True
) -> BorderDecision:
    """Return the decision at the border before the step number `steps`. Pure.

    Until all workers have passed a border, which the first one knows at the one after, its decision stays.

    Args:
        before: the latest decision.
        notes: what the workers have to say.
        following: the number of the step before which the next border lies.
        is_due: True if a checkpoint is due by then.
        is_patient: False if the checkpoint has been waiting for too long for the one before it.
    """
    if before.border > 0 and steps <= before.border:
        return before
    is_whole = all(note.saved == before.border for note in notes)
    common = before.border if is_whole and before.border else before.common
    stop = next((note.asked for note in notes if note.asked), 0)
    if not stop and not (is_due and (is_whole or not before.border or not is_patient)):
        return before
    return BorderDecision(following, common, stop)


class BorderFile:
    """The file that the workers of one attempt have in common. Each writes only its own record.

    Args:
        run_dir: the run directory of the first worker.
        rank: the rank of this worker.
        workers: the number of workers.
    """

    def __init__(self, run_dir: Path, attempt: int, rank: int, workers: int) -> None:
        self._attempt, self._rank, self._workers = attempt, rank, workers
        size = (1 + workers) * _RECORD.size
        fd = open_own(run_dir, BORDERS, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, size)  # otherwise, a hole could cause a SIGBUS later, if the disk is full
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)

    def write_decision(self, decision: BorderDecision) -> None:
        """Write the first worker's decision."""
        self._write(0, decision)

    def decision(self) -> BorderDecision | None:
        """Return the latest decision of this attempt, or None if there is none, or it is being written."""
        found = self._read(0)
        return None if found is None else BorderDecision(*found)

    def write_note(self, note: Note) -> None:
        """Write what this worker has to say."""
        self._write(1 + self._rank, (*note, 0))

    def notes(self) -> list[Note]:
        """Return what each worker has to say in this attempt, by rank."""
        return [Note(*(self._read(1 + rank) or (0, 0, 0))[:2]) for rank in range(self._workers)]

    def _write(self, index: int, numbers: Sequence[int]) -> None:
        record = (self._attempt, *numbers)
        _RECORD.pack_into(self._map, index * _RECORD.size, *record, _check(record))

    def _read(self, index: int) -> tuple[int, int, int] | None:
        *record, check = _RECORD.unpack_from(self._map, index * _RECORD.size)
        if record[0] != self._attempt or check != _check(record):
            return None
        return record[1], record[2], record[3]


def _check(record: Sequence[int]) -> int:
    return reduce(xor, record, ~0)


class CommonBorders:
    """The borders at which this worker saves or stops together with the others."""

    def __init__(self, file: BorderFile, rank: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._decides, self._clock = file, rank == 0, clock
        self._decision, self._note = BorderDecision(), Note()
        self._due_since: float | None = None
        self._stopped_at, self._looked_at = 0, 0.0

    @property
    def common(self) -> int:
        """The step count of the newest checkpoint that all workers are known to have, or 0."""
        return self._decision.common

    def resumed(self, steps: int) -> None:
        """Record that all workers have resumed from the checkpoint with this step count."""
        self._decision = self._decision._replace(common=steps)

    def saved(self, steps: int) -> None:
        """Note this worker's part of a checkpoint."""
        if 0 < steps == self._decision.border:
            self._say(self._note._replace(saved=steps))

    def arrive(self, steps: int, following: int, is_due: Callable[[], bool], asked: int) -> None:
        """Decide, or learn what was decided, at the border before the step number `steps`.

        Args:
            following: the number of the step before which the next border lies.
            is_due: returns True if a checkpoint is due by then. Only the first worker calls it.
            asked: the signal that asks this worker to stop, or 0.
        """
        if asked != self._note.asked:
            self._say(self._note._replace(asked=asked))
        if self._decides:
            self._decide(steps, following, is_due(), asked)
        else:
            self._decision = self._file.decision() or self._decision

    def is_due(self, steps: int) -> bool:
        """True if all workers save at this border."""
        return 0 < steps == self._decision.border

    def stop(self, steps: int) -> int:
        """Return the signal that makes all workers stop at this border, or 0. Each is returned once."""
        border, _, signum = self._decision
        if not signum or steps < border or border == self._stopped_at:
            return 0
        self._stopped_at = border
        self._say(self._note._replace(asked=0))
        return signum

    def _decide(self, steps: int, following: int, is_due: bool, asked: int) -> None:
        now = self._clock()
        if not (is_due or asked or now >= self._looked_at + _LOOK_SECONDS):
            self._due_since = None
            return
        self._looked_at = now
        self._due_since = (self._due_since or now) if is_due else None
        is_patient = self._due_since is None or now < self._due_since + PATIENCE_SECONDS
        new = decided(self._decision, self._file.notes(), steps, following, is_due, is_patient)
        if new != self._decision:
            self._decision, self._due_since = new, None
            self._file.write_decision(new)

    def _say(self, note: Note) -> None:
        self._note = note
        self._file.write_note(note)
