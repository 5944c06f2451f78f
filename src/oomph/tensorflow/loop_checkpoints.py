"""LoopCheckpoints: when a loop is saved, and how. What is saved is the loop's own affair."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.recovery.checkpoint import CheckpointWriter, Position
from oomph.recovery.hostmemory import available_bytes
from oomph.recovery.interval import Cost
from oomph.recovery.phases import Phase
from oomph.recovery.store import CheckpointStore, Draft, Saved
from oomph.tensorflow import state
from oomph.tensorflow.state import Array, NotFiniteError

if TYPE_CHECKING:
    from oomph.tensorflow.resumable_loop import ResumableLoop

_BACKGROUND_BYTES = 4 << 20
_BACKGROUND_SECONDS = 0.1
"""A smaller state that is written faster is not worth a thread."""
_SHARE_OF_MEMORY = 0.25
"""The copy that is written in the background may take this much of the host's free memory."""
_ERRORS = (CheckpointError, tf.errors.OpError, ValueError)


@dataclass(frozen=True)
class _Snapshot:
    """A state that is being saved."""

    at: Position
    seconds: float
    """For so long the training stood still for it."""
    iterator: str
    """Why it does not hold the position in the data; empty when it does."""


class LoopCheckpoints:
    """The checkpoints of one loop, taken at the border before a step.

    Besides those that are due, one is taken before the last step of all, where that is known to be the last: what a
    finished loop comes to is then a matter of one step, which a restarted script does again.
    """

    def __init__(self, loop: ResumableLoop) -> None:
        self._loop, self._fits = loop, loop.fits
        self._saved_at_step = loop.fits.steps
        self._has_saved = False
        self._saved_at, self._stall, self._write = time.monotonic(), 0.0, 0.0
        self._between_saves = 0.0
        self._told_interval = self._told_not_finite = False
        self._snapshot: _Snapshot | None = None
        """What is being written in the background."""
        self.last: Saved | None = None

    def at_border(self) -> None:
        """Save when it is time to."""
        if self._snapshot is not None:
            self.settle(wait=False)
        since = self._fits.steps - self._saved_at_step
        last = self._loop.steps.is_at_last_step and (since > 0 or not self._has_saved)
        if last or self._fits.interval.due(since, time.monotonic() - self._saved_at, self._cost()):
            self._save()

    def save_now(self) -> None:
        """Save, unless the newest checkpoint is of this very step: the process is about to end."""
        if self._fits.steps != self._saved_at_step:
            self._save()
        self.settle(wait=True)

    def settle(self, wait: bool) -> None:
        """Take note of what was written in the background."""
        outcome = self._fits.background.take(wait)
        if outcome is None or self._snapshot is None:
            return
        snapshot, self._snapshot = self._snapshot, None
        self._write = outcome.seconds
        if outcome.error is not None:
            self._say_failed(outcome.error)
        elif outcome.result is not None:
            self._note_saved(outcome.result, snapshot)

    def finished(self) -> Saved | None:
        """The loop has come to its end: only its last checkpoint is needed from now on."""
        self.settle(wait=True)
        store = self._fits.store()
        if store is not None and self.last is not None:
            store.keep_newest_step(self._loop.identity.ordinal)
            self._fits.note_end_state(self.last)
        return self.last

    def count_from(self, steps: int) -> None:
        """The newest checkpoint is one of so many steps of the run."""
        self._fits.saved = self._saved_at_step = steps
        self._has_saved, self._saved_at = True, time.monotonic()

    # -- saving -------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Take the state while the training stands still, and write it: here, or in the background if that pays."""
        store = self._fits.store()
        self._between_saves = time.monotonic() - self._saved_at
        self._saved_at, self._saved_at_step = time.monotonic(), self._fits.steps
        if store is None or self._fits.context_lost:
            return
        started, at = time.monotonic(), self._loop.position
        self.settle(wait=True)
        self._attempted(lambda: self._written(store, at, started))

    def _written(self, store: CheckpointStore, at: Position, started: float) -> None:
        draft = store.draft_step(at)
        try:
            self._loop.prepare_to_save()
            self._loop.data.save(draft, self._between_saves)
            meta, own = self._loop.taken_state()
            self._complete(draft, meta, own, at, started)
        except BaseException:
            draft.abandon()
            raise

    def _complete(self, draft: Draft, meta: dict[str, Any], own: list[Array], at: Position, started: float) -> None:
        variables, iterator = self._loop.variables, self._loop.data.not_saved
        named, finite = variables.named, variables.finite
        if not self._pays_in_background(named):
            saved = draft.complete(meta, _writer(lambda: state.values_of(named), own, finite))
            self._stall, self._write = time.monotonic() - started, 0.0
            self._note_saved(saved, _Snapshot(at, self._stall, iterator))
            return
        values = list(state.values_of(named))
        self._stall = time.monotonic() - started
        self._snapshot = _Snapshot(at, self._stall, iterator)
        self._fits.background.start(partial(draft.complete, meta, _writer(lambda: values, own, finite)))

    def _pays_in_background(self, named: state.Named) -> bool:
        size = sum(slot.nbytes for _, slot in named)
        room = available_bytes()
        if room is not None and size > room * _SHARE_OF_MEMORY:
            return False
        return size >= _BACKGROUND_BYTES or self._stall + self._write >= _BACKGROUND_SECONDS

    def _cost(self) -> Cost:
        return Cost(self._stall, self._write, self._fits.seconds_between_faults())

    def _attempted(self, save: Callable[[], None]) -> None:
        """Save; a failure is said once: the training matters more."""
        try:
            with self._fits.session.pulse.during(Phase.CHECKPOINT):
                save()
        except _ERRORS as error:
            self._say_failed(error)
        finally:
            self._saved_at = time.monotonic()

    # -- telling ------------------------------------------------------------------------------------------------------

    def _say_failed(self, error: Exception) -> None:
        kept = f"the one of step {self._fits.saved} stays" if self._fits.saved else "there is none yet"
        if isinstance(error, NotFiniteError):
            path = self._loop.variables.path_of(str(error))
            self._loop.note_here("checkpoint-skipped", reason=f"{path} is not finite")
            if not self._told_not_finite:
                self._told_not_finite = True
                where = f"{path} holds NaN or infinity at {self._loop.where}"
                self._fits.say(f"{where}: no checkpoint is taken of that; {kept}")
            return
        reason = str(getattr(error, "message", error)).splitlines()[0][:300]
        self._loop.note_here("checkpoint-failed", reason=reason)
        self._fits.say_once(f"checkpoint could not be written: {reason.partition(' (')[0]}; training goes on")

    def _note_saved(self, saved: Saved, snapshot: _Snapshot) -> None:
        at = snapshot.at
        self._fits.saved, self.last, self._has_saved = at.steps, saved, True
        self._loop.write_board()
        self._fits.note(
            "checkpoint",
            name=saved.name,
            fit=at.fit,
            epoch=at.epoch,
            step=at.step,
            steps=at.steps,
            bytes=saved.nbytes,
            seconds=round(snapshot.seconds, 4),
            background_seconds=round(self._write, 4),
            iterator=snapshot.iterator or "saved",
        )
        if not self._told_interval:
            self._told_interval = True
            behind = f" and {self._write:.2f} s in the background" if self._write else ""
            rule = self._fits.interval.describe(self._cost())
            self._fits.say(f"checkpoint of {saved.nbytes / 1e6:.1f} MB in {self._stall:.2f} s{behind}; next {rule}")


def _writer(
    values: Callable[[], Iterable[Array]], own: list[Array], finite: frozenset[str]
) -> Callable[[CheckpointWriter], None]:
    def write(writer: CheckpointWriter) -> None:
        state.write(writer, values(), finite)
        state.write(writer, own)

    return write
