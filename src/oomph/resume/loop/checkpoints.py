"""LoopCheckpoints: when and how a loop is saved. `RunningLoop` decides what is saved."""

from __future__ import annotations

import time

from oomph.checkpoint.container import Position
from oomph.checkpoint.store import CheckpointStore, Saved
from oomph.resume.loop.running import RunningLoop
from oomph.resume.training.step_checkpoints import StateSnapshot, StepCheckpoints


class LoopCheckpoints(StepCheckpoints):
    """The checkpoints of one loop.

    Besides those that are due, one is taken before the last step, if known. A restarted script then repeats only one
    step of a finished loop.
    """

    def __init__(self, loop: RunningLoop) -> None:
        super().__init__(loop)
        self._loop = loop
        self._has_saved = False
        self._last: Saved | None = None

    def at_border(self) -> None:
        """Save if a checkpoint is due."""
        self._look_for_written()
        is_new = self._fits.steps > self._saved_at_step or not self._has_saved
        if (is_new and self._loop.steps.is_at_last_step) or self._is_due():
            self._save()

    def finished(self) -> Saved | None:
        """Remove all but the last checkpoint of a loop that has ended, and return that checkpoint."""
        self.settle(wait=True)
        store = self._fits.store()
        if store is not None and self._last is not None:
            store.keep_newest_step(self._loop.identity.ordinal)
            self._fits.note_end_state(self._last)
        return self._last

    def count_from(self, steps: int) -> None:
        """Record that the newest checkpoint was taken after `steps` steps of the run."""
        super().count_from(steps)
        self._has_saved = True

    def _save_step(self, store: CheckpointStore, at: Position, started: float) -> None:
        draft = store.draft_step(at)
        try:
            self._loop.prepare_to_save()
            self._loop.data.save(draft, self._between_saves)
            taken, not_saved = self._loop.taken_state(), self._loop.data.not_saved
            self._look_at_growth(self._loop.sizes)
            variables = self._loop.variables
            self._complete(
                draft, taken, variables.named, variables.finite,
                lambda: StateSnapshot(at, time.monotonic() - started, not_saved),
            )  # fmt: skip
        except BaseException:
            draft.abandon()
            raise

    def _note_saved(self, saved: Saved, snapshot: StateSnapshot) -> None:
        self._last, self._has_saved = saved, True
        super()._note_saved(saved, snapshot)

    def _path_of(self, name: str) -> str:
        return self._loop.variables.path_of(name)
