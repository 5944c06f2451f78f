"""LoopCheckpoints saves a loop between steps. LoopResumption restores it before its body receives the first batch.

`RunningLoop` decides what to save."""

from __future__ import annotations

import time

from oomph.checkpoint.container import Checkpoint, Position
from oomph.checkpoint.manifest import said
from oomph.checkpoint.store import CheckpointStore, Saved
from oomph.checkpoint.witness import STEP
from oomph.errors import CheckpointError
from oomph.exact_step.micro_batch.micro_batch_step import essence
from oomph.journal.events import CheckpointRefused, RepeatCompared, Resumed
from oomph.objects.picture import lost_object
from oomph.protocol.reasons import as_data, because, reasons_from
from oomph.resume.fit.resumption import CannotResumeError, ended_before, may_pass, returned
from oomph.resume.loop.running import RunningLoop, other_data
from oomph.resume.loop.state import OWN
from oomph.resume.state import training_state
from oomph.resume.training import leaving, provenance
from oomph.resume.training.fit_objects import from_meta
from oomph.resume.training.provenance import CONFIGURATION, DATA, ENVIRONMENT, SCRIPT
from oomph.resume.training.step_checkpoints import StateSnapshot, StepCheckpoints
from oomph.script.restorable import is_from_elsewhere


class LoopCheckpoints(StepCheckpoints):
    """Saves the checkpoints of one loop.

    Besides the regular checkpoints, one is taken before the last step, if the number of steps is known. A restarted
    script then repeats only one step of a finished loop.
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
        if self._is_due() or (is_new and self._loop.steps.is_at_last_step):
            self._save()

    def finished(self) -> Saved | None:
        """Remove all but the last checkpoint of a finished loop, and return the last one."""
        self.settle(wait=True)
        store = self._store()
        if store is not None and self._last is not None:
            store.keep_newest_step(self._loop.identity.ordinal)
            self._fits.note_end_state(self._last)
        return self._last

    def count_from(self, steps: int) -> None:
        """Record that the latest checkpoint was taken after `steps` steps of the run."""
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


_TRIES = 3
_PAUSE_SECONDS = 1.0


class LoopResumption:
    """Restores the checkpoint that a loop resumes from, if there is one."""

    def __init__(self, loop: RunningLoop, checkpoints: LoopCheckpoints) -> None:
        self._loop, self._fits, self._checkpoints = loop, loop.fits, checkpoints
        self.checkpoint: Checkpoint | None = None

    def go_on(self) -> int | None:
        """Restore the loop and return the epoch to resume from, or None if there is no checkpoint.

        If no checkpoint can be restored, exits the process and leaves them all intact.
        """
        checkpoint = self.checkpoint
        while checkpoint is not None:
            try:
                started = time.monotonic()
                kind = self._restored(checkpoint)
                self._loop.proof.is_replayed = kind == "replayed"
                self._tell(checkpoint, kind, time.monotonic() - started)
                return self._loop.steps.number
            except CannotResumeError as error:
                checkpoint = self._older(checkpoint, error)
        return None

    def _older(self, checkpoint: Checkpoint, error: CannotResumeError) -> Checkpoint:
        identity = self._loop.identity
        if error.passing:
            leaving.leave_for_later(self._fits, identity, str(error), "loop")
        older = None if self._loop.steps.source.is_one_pass else self._fits.checkpoint_before(checkpoint)
        if older is None:
            leaving.refuse(self._fits, identity, because("in-words", text=str(error)), "loop")
        self._fits.say(f"using the previous one, {older.name}")
        self._loop.lost.clear()
        self._loop.data.iterators_made = 0
        return older

    def _restored(self, checkpoint: Checkpoint) -> str:
        """Restore the state, retrying after transient errors; return how the data position was restored."""
        made, kind = False, ""
        for tried in range(1, _TRIES + 1):
            try:
                if self._is_over(checkpoint):
                    made, kind = True, self._skip_all()
                if not made:
                    self._make_iterator(checkpoint)
                    made = True
                kind = kind or self._find_position(checkpoint)
                self._restore_state(checkpoint)
                self._loop.is_over = kind == "over"
                return kind
            except Exception as error:
                passing = may_pass(error)
                self._loop.note_here(CheckpointRefused(name=checkpoint.name, reason=essence(error)))
                if not passing or not made or tried == _TRIES:
                    raise CannotResumeError(f"checkpoint {checkpoint.name}: {essence(error)}", passing) from error
                self._fits.say(f"checkpoint {checkpoint.name} could not be restored: {essence(error)}; trying again")
                time.sleep(_PAUSE_SECONDS * tried)
        raise AssertionError("unreachable")

    def _is_over(self, checkpoint: Checkpoint) -> bool:
        """True if a checkpoint covers all the epochs that the script asks for."""
        epochs = self._loop.steps.epochs
        return epochs is not None and checkpoint.position.epoch >= len(epochs)

    def _skip_all(self) -> str:
        """Skip to the end of the loop without running its body."""
        loop = self._loop
        loop.steps.number = len(loop.steps.epochs or ())
        return "over"

    def _make_iterator(self, checkpoint: Checkpoint) -> None:
        """Restore the objects that the data depends on, and create the iterator that the loop resumes with."""
        loop = self._loop
        loop.data.begins_as_before(checkpoint)
        loop.steps.begin_epoch(checkpoint.position.epoch)
        loop.data.look_at(loop.steps.iterator)

    def _find_position(self, checkpoint: Checkpoint) -> str:
        loop, at = self._loop, checkpoint.position
        if other_data(checkpoint.meta.made_by, loop.facts):
            return "epoch"  # the data was edited, so the old position is meaningless
        kind = loop.data.restore(checkpoint, loop.steps.iterator, None, self._batches_before(checkpoint))
        if kind == "epoch" or (loop.steps.length is not None and at.step > loop.steps.length):
            raise CheckpointError(ended_before(checkpoint))
        loop.steps.step, loop.steps.drawn = at.step, loop.data.taken
        return kind

    def _batches_before(self, checkpoint: Checkpoint) -> list[int]:
        """Return the fingerprints of the epoch's batches before a checkpoint, with 0 for each one that is missing."""
        at, board = checkpoint.position, self._fits.witnesses
        mine = [] if board is None else board.before
        key = self._loop.identity.witness_key
        found = {w.step: w.batch for w in mine if w.key == key and w.kind == STEP and w.epoch == at.epoch}
        return [found.get(step, 0) for step in range(at.step)]

    def _restore_state(self, checkpoint: Checkpoint) -> None:
        loop, meta = self._loop, checkpoint.meta
        loop.variables.make_as_before(said(meta.made))
        with training_state.restored(checkpoint, loop.variables.named, loop.variables.finite):
            drawn = loop.data.drawn_by_pipeline
            training_state.restore_random_state(
                {name: value for name, value in said(meta.random).items() if name not in drawn}
            )
            changes = from_meta(said(meta.objects), training_state.read_arrays(checkpoint, "object/"))
            self._loop.lost = [*loop.data.lost, *changes.lost, *loop.objects.restore(changes, drawn)]
            if meta.own and is_from_elsewhere():
                self._loop.lost.append(lost_object("the loop", "its own state, which was written elsewhere"))
            else:
                self._loop.lost += loop.objects.tell(meta.own, training_state.read_arrays(checkpoint, OWN))
            self._loop.lost += reasons_from(meta.hidden)
            loop.restore_draws(training_state.read_arrays(checkpoint, "draws/"), meta.draws)
            if loop.data.order_to_come_is_by_chance(loop.steps.is_in_last_epoch):
                self._loop.lost.append(because("order-unseeded"))
        loop.steps.steps = said(meta.loop_steps)
        loop.take_held()

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _tell(self, checkpoint: Checkpoint, kind: str, seconds: float) -> None:
        loop, at, before = self._loop, checkpoint.position, checkpoint.meta.made_by
        self._fits.steps = at.steps
        self._checkpoints.count_from(at.steps)
        edited = bool(provenance.changes(before, loop.facts, SCRIPT, ENVIRONMENT))
        rates = loop.keep_edited_learning_rates(checkpoint.meta.learning_rates, edited)
        found = [*provenance.changes(before, loop.facts), *rates]
        self._loop.lost = list(dict.fromkeys(self._loop.lost))
        loop.note_here(
            Resumed(
                key=loop.identity.key,
                name=checkpoint.name,
                steps=at.steps,
                kind=kind,
                seconds=round(seconds, 3),
                changes=as_data(found),
                lost=as_data(self._loop.lost),
                meant=as_data(
                    [
                        *provenance.what_was_given(before, loop.facts),
                        *provenance.changes(before, loop.facts, CONFIGURATION, DATA),
                        *rates,
                    ]
                ),
            )
        )
        if kind == "over":
            self._fits.say(returned("loop", loop.identity.site, checkpoint, loop.steps.number))
        else:
            self._fits.say(f"resumed loop at {loop.identity.site} at {loop.where} ({kind}), {seconds:.1f} s")
        if found:
            self._fits.say(f"since the checkpoint: {provenance.listed(found)}")
        for lost in self._loop.lost:
            self._fits.warn_once(f"not restored: {lost}")
        self._tell_other_batches()

    def _tell_other_batches(self) -> None:
        data, loop = self._loop.data, self._loop
        if data.differs_at is None:
            return
        cause = because("other-batches", batch=data.differs_at + 1)
        loop.note_here(
            RepeatCompared(
                key=loop.identity.key, steps=0, epochs=0, batches=data.same, equal=False, cause=cause.as_data()
            )
        )
        self._fits.warn(f"not equal to the earlier attempt: {cause}")
