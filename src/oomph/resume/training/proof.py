"""Proof: each step of a fit leaves a witness; a resumed fit's witnesses are compared with the earlier ones.

A step's result is read immediately if it is in host memory. On a GPU, the results of the first steps after a checkpoint
are read, then fewer and fewer: reading every one would make training wait for the device. Whenever a fault strikes, at
least one result from the last eighth of the steps to repeat has been read.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from oomph.checkpoint.witness import END, EPOCH, STEP, Comparison, Witness, WitnessBoard
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.exact_step.step.step_protocol import Taken
from oomph.journal.events import AtStep, RepeatCompared
from oomph.keras_bridge import fingerprints
from oomph.protocol.coverage import Coverage
from oomph.protocol.reasons import Reason, in_one_line
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity

_DETAILED = 4
"""The number of steps after a checkpoint whose witnesses also contain the learning rate and the random state."""
_PART_UNREAD = 8
"""The divisor of the number of steps since a checkpoint: at most that many may follow the last result that was read."""
_SHARE = 0.005
"""The largest share of training time to spend on state fingerprints."""


class Witnessed(Protocol):
    """A fit or loop that leaves witnesses."""

    fits: Fits
    identity: FitIdentity
    lost: list[Reason]
    """The reasons why parts of the state were not restored."""

    def note_here(self, fact: AtStep) -> None:
        """Write an event to the journal, with the current position."""


class Proof(ABC):
    """Writes and compares the witnesses of one fit or loop.

    Args:
        board: the board to write witnesses to, or None to leave no witnesses.
    """

    def __init__(self, training: Witnessed, board: WitnessBoard | None) -> None:
        self._training, self._board = training, board
        self._detailed = _DETAILED
        self._since = self._next_read = 0
        """The number of steps since the last checkpoint, and the number at which the next result is read."""
        self._done, self._stride = 0, 1
        """The number of steps since the resume, and the number in the last execution."""
        self._on_host = not tf.config.list_logical_devices("GPU")
        self._comparison: Comparison | None = None
        self._told = False
        self.last_state = 0
        """The fingerprint of the fit's end state, or 0 if there was no time to compute it."""
        self._began = time.monotonic()
        self.is_replayed = False
        """True if the resume replayed the epoch's batches, in which case it cannot count as verified."""

    # -- leaving witnesses ------------------------------------------------------------------------------------------

    def checkpointed(self) -> None:
        """Record that a checkpoint was taken before the next step: a resume repeats the steps from there on."""
        self._read_often()
        if self._comparison is not None and self._told:
            self._note(self._comparison)  # a later attempt may resume from here: record the result so far

    def compare_from(self, epoch: int, step: int) -> None:
        """Compare the steps that an earlier attempt already trained, starting at this position."""
        self._read_often()
        self._done = 0
        if self._board is not None:
            self._comparison = Comparison(self._board.before, self._key, epoch, step)

    def compare_loaded(self, epoch: int) -> None:
        """Compare a fit that the script itself resumes at an epoch, including the state that the script loaded."""
        self.compare_from(epoch, 0)
        if self._comparison is not None and self._comparison.began_with is not None:
            self._comparison.begins_with(self._state_now())
            self.tell(at_the_end=False)

    def _read_often(self) -> None:
        self._detailed, self._since, self._next_read = _DETAILED, 0, 0

    def step(self, epoch: int, step: int, taken: Taken | None, count: int = 1) -> None:
        """Write the witness of a completed step, and compare it with the witness from an earlier attempt.

        Args:
            epoch, step: the step's position, counted from 0; if the execution ran several steps, that of the first.
            count: the number of steps in the execution.
        """
        self._did(epoch, step, count)
        if self._board is None or taken is None:
            return
        batch = fingerprints.as_number(taken.fingerprint)
        witness = Witness(self._key, STEP, epoch, step, batch)
        detailed = self._detailed > 0
        if self._is_read() or self._on_host or self._is_result_awaited(epoch, step):
            witness = witness._replace(result=fingerprints.of_logs(taken.logs), loss=loss_of(taken.logs))
        if detailed:
            self._detailed -= 1
            witness = witness._replace(rate=self._rate(), random=random_state())
        self._leave(witness)

    def epoch_end(self, epoch: int, step: int) -> None:
        """Write and compare the witness of an epoch, after its validation and callbacks."""
        if self._comparison is not None:
            self._comparison.ended(epoch, step)
            self._tell_difference()
        if self._board is not None and (self._is_affordable() or self._is_compared(EPOCH, epoch, step)):
            self._leave(Witness(self._key, EPOCH, epoch, step, result=self._state_now()))

    def end(self, epoch: int, step: int) -> None:
        """Write and compare the witness of the whole fit."""
        if self._board is not None and (self._is_affordable() or self._is_compared(END, epoch, step)):
            self.last_state = self._state_now()
            self._leave(Witness(self._key, END, epoch, step, result=self.last_state))
        self.tell(at_the_end=True)

    def _leave(self, witness: Witness) -> None:
        assert self._board is not None
        if self._comparison is not None and self._comparison.pending:
            self._comparison.see(witness, self._done)
            if self._comparison.is_in_doubt:
                self._measure_noise(self._comparison)
            self.tell(at_the_end=False)
        self._board.write(witness)

    def _did(self, epoch: int, step: int, count: int) -> None:
        self._done, self._stride = self._done + count, count
        if self._comparison is not None:
            self._comparison.reached(epoch, step, count)
            self._tell_difference()

    def _tell_difference(self) -> None:
        if self._comparison is not None and self._comparison.difference is not None:
            self.tell(at_the_end=False)

    def _is_read(self) -> bool:
        """True if this step's result should be read from the GPU."""
        self._since += 1
        if self._since < self._next_read:
            return False
        self._next_read = self._since + max(1, self._since // _PART_UNREAD)
        return True

    def _measure_noise(self, comparison: Comparison) -> None:
        """Measure how much two computations of the next step differ; assume no difference if the step is unguarded."""
        step = self._step_to_measure()
        if isinstance(step, GuardedStep):
            step.measure_noise(comparison.settle)
        else:
            comparison.settle(0.0)

    @abstractmethod
    def _step_to_measure(self) -> Any:
        """Return the function that runs the next step, or None if unknown."""

    @property
    def _key(self) -> int:
        return self._training.identity.witness_key

    # -- reporting the comparison -----------------------------------------------------------------------------------

    def tell(self, at_the_end: bool) -> None:
        """Report the comparison after its first step, at the first difference, and when it is complete."""
        found = self._comparison
        if found is not None and found.is_in_doubt and at_the_end:
            found.settle(0.0)  # there is no further step on which to measure the noise
        if found is None or (found.steps == 0 and found.epochs == 0 and found.difference is None):
            return
        over, different = at_the_end or not found.pending, found.difference
        if self._told and not over:
            return
        self._told = True
        self._note(found)
        if different is not None:
            self._training.fits.warn(f"not equal to the earlier attempt: {self._cause(different)}")
        elif over and self._done:  # otherwise no step was left to repeat
            lost = self._training.lost
            self._training.fits.say(_repeated(self._coverage(found), found.noise, bool(lost), self.is_replayed))
        if over:
            self._comparison = None

    def _note(self, found: Comparison) -> None:
        different, coverage = found.difference, self._coverage(found)
        self._training.note_here(
            RepeatCompared(
                key=self._training.identity.key,
                steps=coverage.compared,
                epochs=found.epochs,
                covered=coverage.covered,
                repeated=coverage.repeated,
                equal=different is None,
                cause=None if different is None else different.as_data(),
                noise=found.noise,
            )
        )

    def _coverage(self, found: Comparison) -> Coverage:
        repeated = found.covered + found.ahead * self._stride
        return Coverage(found.steps * self._stride, found.epochs, found.covered, repeated)

    def _cause(self, different: Reason) -> str:
        lost = self._training.lost
        return f"{different} (not restored: {in_one_line(lost, 4)})" if lost else str(different)

    # -- reading the state ------------------------------------------------------------------------------------------

    def _is_compared(self, kind: int, epoch: int, step: int) -> bool:
        return self._comparison is not None and self._comparison.awaits(kind, epoch, step)

    def _is_result_awaited(self, epoch: int, step: int) -> bool:
        return self._comparison is not None and self._comparison.awaits_result(epoch, step)

    def _is_affordable(self) -> bool:
        return self._newest_state().is_affordable(_SHARE)

    @abstractmethod
    def _newest_state(self) -> fingerprints.StateFingerprint:
        """Return the latest state fingerprint; it may lack new variables, which matter only once it is computed."""

    def _state_now(self) -> int:
        """Compute the fingerprint of the current weights and optimizer state."""
        return self._state().compute()

    @abstractmethod
    def _state(self) -> fingerprints.StateFingerprint:
        """Return the state fingerprint of everything that is currently being trained."""

    @abstractmethod
    def _rate(self) -> float:
        """Return the learning rate, or 0.0 if there is none."""


def _repeated(coverage: Coverage, noise: float, is_lost: bool, is_replayed: bool) -> str:
    within = f", within this training's own noise of {noise:.1g}" if noise else ""
    same = f"{coverage} gave the same results{within}"
    if is_lost:
        return f"{same}, but not everything was restored"
    if not coverage.is_enough:
        return f"unverified: {same}; the steps after them were not compared"
    return f"{'replayed' if is_replayed else 'verified'}: {same}"


def loss_of(logs: Any) -> float:
    """Return the loss in a step's result, or the result itself if it is a single number; otherwise 0.0."""
    loss = logs.get("loss") if isinstance(logs, dict) else logs
    try:
        value = float(np.asarray(loss))
    except (TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def random_state() -> int:
    """Hash the states of the global random generators into 64 bits."""
    digest = hashlib.blake2b(repr(random.getstate()).encode(), digest_size=8)
    found: Any = np.random.get_state(legacy=False)
    digest.update(repr((found["bit_generator"], found["state"].get("pos"), found["gauss"])).encode())
    digest.update(np.asarray(found["state"].get("key", 0)).tobytes())
    return int.from_bytes(digest.digest(), "little")
