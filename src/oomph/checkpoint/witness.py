"""Witnesses: records of step results that survive `kill -9`, and their comparison with the results of repeated steps.

A resumed fit or loop repeats the steps after its checkpoint. Each of them left a witness: a digest of its batch, its
loss, and a digest of everything it reported; each epoch left a digest of the state. If the repeated steps produce the
same results, the resume is verified. The file is a memory-mapped ring buffer: a record survives the process that wrote
it, and writing one takes about a microsecond. Runs in the script process; standard library only.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import open_own
from oomph.protocol.reasons import Reason, because

STEP, EPOCH, END = 1, 2, 3
"""The kinds of witnesses: for a step, the end of an epoch, and the end of a fit."""
WITNESSES = "witness"
"""The name of the ring buffer's file in a run directory."""
_CAPACITY = 8192
_FIELDS = struct.Struct("<QIIIIQQddQQ")
_RECORD = struct.Struct(f"<{_FIELDS.size}sI4x")
"""The layout of a record: its fields, and a checksum that reveals whether a kill cut the record short."""


class Witness(NamedTuple):
    """The record of one step or epoch. Unknown fields are 0."""

    key: int
    """The key of the fit."""
    kind: int
    epoch: int
    step: int
    """The number of the step, counted from 0 within the epoch."""
    batch: int = 0
    """A digest of the batch."""
    result: int = 0
    """A digest of the step's logs, or of the state at the end of an epoch or fit."""
    loss: float = 0.0
    rate: float = 0.0
    """The learning rate."""
    random: int = 0
    """A digest of the random generators' states after the step."""


class WitnessBoard:
    """A run's ring buffer, written by the owner process. Raises OSError if its file cannot be created."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        size = _CAPACITY * _RECORD.size
        fd = open_own(run_dir, WITNESSES, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, size)  # on a full disk, writing to a hole would raise SIGBUS later
            os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._attempt = attempt
        found = sorted(_records(self._map))
        self.before = [witness for _, _, witness in found]
        """The witnesses of earlier attempts, oldest first."""
        self._sequence = found[-1][0] if found else 0

    def close(self) -> None:
        """Close the file. Nothing can be written afterwards."""
        self._map.close()

    def write(self, witness: Witness) -> None:
        """Append a witness."""
        self._sequence += 1
        key, kind, epoch, step, batch, result, loss, rate, random = witness
        fields = _FIELDS.pack(key, kind, epoch, step, self._attempt, batch, result, loss, rate, random, self._sequence)
        _RECORD.pack_into(self._map, self._sequence % _CAPACITY * _RECORD.size, fields, zlib.crc32(fields))


def _records(board: mmap.mmap) -> Iterable[tuple[int, int, Witness]]:
    """Yield the sequence number, attempt and witness of each intact record in a ring buffer."""
    for packed, checksum in _RECORD.iter_unpack(board[:]):
        key, kind, epoch, step, attempt, batch, result, loss, rate, random, sequence = _FIELDS.unpack(packed)
        if sequence and zlib.crc32(packed) == checksum:
            yield sequence, attempt, Witness(key, kind, epoch, step, batch, result, loss, rate, random)


_MOST_NOISE = 0.01
"""A loss with a larger relative difference counts as different, no matter how noisy training is."""
_WITHIN = 10.0
"""The loss may differ by this many times the noise of a single step, per repeated step, since noise adds up."""


class Comparison:
    """Compares the steps repeated after a resume with the steps of earlier attempts.

    Args:
        before: the witnesses of earlier attempts, oldest first.
        epoch: the epoch to resume in, counted from 0.
        step: the step to resume at, counted from 0.
    """

    def __init__(self, before: Iterable[Witness], key: int, epoch: int, step: int) -> None:
        mine = [witness for witness in before if witness.key == key]
        self.began_with = next((w for w in reversed(mine) if w.kind == EPOCH and w.epoch == epoch - 1), None)
        """The witness of the previous epoch, whose final state a fit that resumes at an epoch must start with."""
        self._left = {(w.kind, w.epoch, w.step): w for w in mine if (w.epoch, w.step) >= (epoch, step)}
        self._places = sorted({(epoch, step) for kind, epoch, step in self._left if kind == STEP})
        self._epoch, self._done = epoch, step
        """The current epoch, and the number of steps done in it."""
        self._noise = -1.0
        self._undecided: deque[tuple[Witness, Witness, int]] = deque()
        """The pairs of witnesses to decide on once the noise is known, with the number of steps repeated by then."""
        self.steps = self.epochs = 0
        """The number of steps and the number of epochs that were repeated with the same result."""
        self.covered = 0
        """The number of repeated steps up to the last one with the same result, which also covers those before it."""
        self.ahead = len(self._places)
        """The number of earlier attempts' witnessed steps that have yet to be repeated."""
        self.difference: Reason | None = None
        """The first difference found, if any."""

    @property
    def pending(self) -> bool:
        """True if there is anything left to compare."""
        return bool(self._left or self._undecided) and self.difference is None

    @property
    def is_in_doubt(self) -> bool:
        """True if a small difference may be noise, which `settle` decides."""
        return bool(self._undecided)

    @property
    def noise(self) -> float:
        """The measured noise, as a relative difference, or 0.0 if all results were identical."""
        return max(0.0, self._noise)

    def awaits(self, kind: int, epoch: int, step: int) -> bool:
        """True if an earlier attempt left a witness of this kind at this position."""
        return self.pending and (kind, epoch, step) in self._left

    def awaits_result(self, epoch: int, step: int) -> bool:
        """True if an earlier attempt left a witness of this step that includes the result."""
        return self.awaits(STEP, epoch, step) and self._left[STEP, epoch, step].result != 0

    def begins_with(self, state: int) -> None:
        """Compare the state before the first step with the state at the end of the previous epoch, if known."""
        then = self.began_with
        if then is not None:
            self._compare(then, then._replace(result=state), 0)

    def see(self, now: Witness, done: int = 0) -> bool:
        """Compare a step or epoch; return True if an earlier attempt left a witness for it.

        Args:
            done: the number of steps done since the resume, including this one.
        """
        then = self._left.pop((now.kind, now.epoch, now.step), None)
        if then is None or self.difference is not None:
            return False
        self._undecided.append((then, now, done))
        if len(self._undecided) == 1:
            self._decide()
        return True

    def reached(self, epoch: int, step: int, count: int = 1) -> None:
        """Record completed steps, witnessed or not, and check that epochs are as long as in the earlier attempt."""
        if epoch > self._epoch:
            self.ended(self._epoch, self._done)
        self._epoch, self._done = epoch, step + count
        longer = any(kind == EPOCH and at == epoch and end <= step for kind, at, end in self._left)
        if longer and self.difference is None:
            self.difference = because("other-data", epoch=epoch + 1, step=step + 1)

    def ended(self, epoch: int, steps: int) -> None:
        """Record the end of an epoch; if it had more steps in the earlier attempt, the data is different."""
        more = [step for kind, at, step in self._left if kind == STEP and at == epoch and step >= steps]
        if more and self.difference is None:
            self.difference = because("other-data", epoch=epoch + 1, step=min(more) + 1)

    def settle(self, noise: float) -> None:
        """Decide whether the pairs in doubt differ.

        Args:
            noise: the relative difference between two computations of the same step, or 0.0 if they agree.
        """
        self._noise = noise
        self._decide()

    def _decide(self) -> None:
        """Compare the undecided pairs, up to the first one that is in doubt."""
        while self._undecided and self.difference is None:
            then, now, done = self._undecided[0]
            if self._noise < 0 and _may_be_noise(then, now):
                return
            self._undecided.popleft()
            self._compare(then, now, done)
        if self.difference is not None:
            self._undecided.clear()

    def _compare(self, then: Witness, now: Witness, done: int) -> None:
        self.difference = self._difference(then, now)
        if self.difference is not None:
            return
        if not (then.result and now.result):
            return  # the batch alone does not say anything about the state
        if now.kind == STEP:
            self.steps += 1
            self._cover(bisect_right(self._places, (now.epoch, now.step)), done)
        elif then.result == now.result:
            self.epochs += 1
            self._cover(bisect_left(self._places, (now.epoch, now.step)), done)

    def _cover(self, places: int, done: int) -> None:
        self.covered, self.ahead = done, len(self._places) - places

    def _difference(self, then: Witness, now: Witness) -> Reason | None:
        """Return the difference between two witnesses, or None if they agree."""
        at = {"epoch": now.epoch + 1, **({"step": now.step + 1} if now.kind == STEP else {})}
        if then.batch and now.batch and then.batch != now.batch:
            return because("other-data", **at)
        if not (then.result and now.result) or then.result == now.result:
            return None
        if now.kind == STEP and self._is_noise(then, now):
            return None
        if self._noise > 0 and now.kind != STEP:
            return None  # states cannot be identical if even two computations of one step differ
        if then.rate and now.rate and then.rate != now.rate:
            return because("other-rate", rate=now.rate, was=then.rate, **at)
        if then.random and now.random and then.random != now.random:
            return because("other-random", **at)
        if now.kind != STEP:
            return because("other-state", final=now.kind != EPOCH, **at)
        losses = {"loss": now.loss, "was": then.loss} if now.loss != then.loss else {}
        return because("other-result", **losses, **at)

    def _is_noise(self, then: Witness, now: Witness) -> bool:
        """True if the difference is within the measured noise."""
        allowed = _WITHIN * (self.steps + 1) * self._noise * abs(then.loss)
        return self._noise > 0 and _may_be_noise(then, now) and abs(now.loss - then.loss) <= allowed


def _may_be_noise(then: Witness, now: Witness) -> bool:
    """True if a difference may be noise: a similar loss from the same batch, or a state that is not identical."""
    if not (then.result and now.result) or then.result == now.result:
        return False
    if now.kind != STEP:
        return True
    pairs = ((then.batch, now.batch), (then.rate, now.rate), (then.random, now.random))
    same = all(before == after for before, after in pairs if before and after)
    return same and bool(then.loss) and abs(now.loss - then.loss) <= _MOST_NOISE * abs(then.loss)
