"""Resumption: puts a fit back to where a checkpoint was, at its first step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from oomph.errors import CheckpointError
from oomph.recovery.checkpoint import Checkpoint
from oomph.tensorflow import callbacks, iterators, layer_state, optimizers, provenance, state
from oomph.tensorflow.part import essence
from oomph.tensorflow.step import Step

if TYPE_CHECKING:
    from oomph.tensorflow.fit import Fit


class Resumption:
    """What a fit has to be put back to, if anything."""

    def __init__(self, fit: Fit) -> None:
        self._fit, self._fits = fit, fit.fits
        self.checkpoint: Checkpoint | None = None
        """The one that is still to be put back."""

    @property
    def pending(self) -> bool:
        """Whether a checkpoint is still to be put back."""
        return self.checkpoint is not None

    @property
    def as_of(self) -> float | None:
        """When the checkpoint was taken that is still to be put back, in seconds since 1970; None without one."""
        return None if self.checkpoint is None else self.checkpoint.meta.get("taken_at")

    def skipped_steps(self) -> int:
        """Steps of the epoch to resume in that an earlier attempt has done."""
        return 0 if self.checkpoint is None or self._other_data(self.checkpoint) else self.checkpoint.position.step

    def skipped_epochs(self) -> int:
        """Whole epochs of the fit that an earlier attempt has done."""
        if self.checkpoint is None:
            return 0
        return self.checkpoint.position.epoch - int(self._fit.arguments.get("initial_epoch") or 0)

    def skipped_iterators(self) -> int:
        """How many iterators an earlier attempt had made before the one to continue, when that one was not saved."""
        if self.checkpoint is None or iterators.is_saved(self.checkpoint.path):
            return 0
        return max(0, int(self.checkpoint.meta["iterators_made"]) - self._fit.data.iterators_made - 1)

    def restore(self, step: Step, iterator: Any) -> None:
        """Put the state back; raises CheckpointError, with the model untouched, when it is not of this fit."""
        checkpoint = self.checkpoint
        assert checkpoint is not None
        other_data, self.checkpoint = self._other_data(checkpoint), None
        started = time.monotonic()
        try:
            kind = self._restore_state(step, checkpoint, iterator, other_data)
        except CheckpointError as error:
            self._refuse(checkpoint, error)
            raise
        except Exception as error:  # to go on from the middle in the state of the beginning would be wrong
            refusal = CheckpointError(essence(error))
            self._refuse(checkpoint, refusal)
            raise refusal from error
        self._fit.step = 0 if other_data else checkpoint.position.step
        taken = 0 if other_data else int(checkpoint.meta["taken"])
        self._fit.data.go_on(iterator, int(checkpoint.meta["iterators_made"]), taken)
        self._tell(checkpoint, kind, time.monotonic() - started)
        self._fit.write_board()

    def _restore_state(self, step: Step, checkpoint: Checkpoint, iterator: Any, other_data: bool) -> str:
        fit, kind = self._fit, "epoch"
        step.prepare(iterator)
        optimizers.build_as_before(fit.model, checkpoint.meta.get("optimizers", []))
        with state.restored(checkpoint, state.slots_of(fit.model, step)):
            layer_state.give_back(fit.model, state.read_arrays(checkpoint, "layer/"))
            if not other_data:
                kind = fit.data.restore(checkpoint, iterator, fit.epoch_iterator)
            state.restore_random_state(checkpoint.meta["random"])
            callbacks.restore_history(fit.model.history, checkpoint.meta["history"])
            callbacks.restore(fit.callbacks, checkpoint.meta["callbacks"], checkpoint, self._fits.say_once)
        return kind

    def _refuse(self, checkpoint: Checkpoint, error: CheckpointError) -> None:
        self._fit.note_here("checkpoint-refused", name=checkpoint.name, reason=str(error))
        self._fits.say(f"checkpoint {checkpoint.name} does not fit: {error}")
        if self._fit.beginning.script_was_edited(checkpoint):
            self._fits.refuse_edited(self._fit, checkpoint)

    def _tell(self, checkpoint: Checkpoint, kind: str, seconds: float) -> None:
        at, fit = checkpoint.position, self._fit
        rate = fit.beginning.keep_edited_learning_rate(checkpoint)
        found = fit.beginning.changes(checkpoint) + ([rate] if rate else [])
        fit.note_here(
            "resumed", name=checkpoint.name, steps=at.steps, kind=kind, seconds=round(seconds, 3), changes=found
        )
        site = fit.identity.site
        self._fits.say(f"resumed fit at {site} at epoch {at.epoch + 1}, step {fit.step + 1} ({kind}), {seconds:.1f} s")
        if found:
            self._fits.say(f"since the checkpoint: {provenance.listed(found)}")
        for line in callbacks.begun_anew(fit.callbacks, checkpoint.meta.get("moved", [])):
            self._fits.say_once(line)

    def _other_data(self, checkpoint: Checkpoint) -> bool:
        """Whether the data are not those of the checkpoint: then its position in them means nothing."""
        self._fit.beginning.facts(self._fit.epoch_iterator)
        return bool(self._fit.beginning.changes(checkpoint, provenance.DATA))
