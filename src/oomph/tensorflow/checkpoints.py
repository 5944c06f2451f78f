"""FitCheckpoints: when a fit is saved, and what of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from oomph.errors import CheckpointError
from oomph.recovery.checkpoint import CheckpointWriter, Position
from oomph.recovery.hostmemory import available_bytes
from oomph.recovery.interval import Cost
from oomph.recovery.phases import Phase
from oomph.recovery.store import CheckpointStore, Draft, Saved
from oomph.tensorflow import callbacks, iterators, layer_state, optimizers, state, written_files
from oomph.tensorflow.fit_objects import as_arrays, as_meta
from oomph.tensorflow.guarded import GuardedStep
from oomph.tensorflow.objects.picture import Changes
from oomph.tensorflow.state import Array, NotFiniteError
from oomph.tensorflow.step import Taken

if TYPE_CHECKING:
    from oomph.tensorflow.fit import Fit

_BACKGROUND_BYTES = 4 << 20
_BACKGROUND_SECONDS = 0.1
"""A smaller state that is written faster is not worth a thread."""
_SHARE_OF_MEMORY = 0.25
"""The copy that is written in the background may take this much of the host's free memory."""
_ERRORS = (CheckpointError, tf.errors.OpError, ValueError)


@dataclass(frozen=True)
class _Snapshot:
    """A state that is being saved, and where it was taken."""

    at: Position
    seconds: float
    """For so long the training stood still for it."""
    iterator: str


class FitCheckpoints:
    """The checkpoints of one fit. They are taken at the border before a step, after all callbacks of the one before."""

    def __init__(self, fit: Fit) -> None:
        self._fit, self._fits = fit, fit.fits
        self._steps_before = self._saved_at_step = fit.fits.steps
        self._saved_at, self._stall, self._write = time.monotonic(), 0.0, 0.0
        self._between_saves = 0.0
        self._began, self._began_at = time.monotonic(), time.time()
        self._told_interval = self._told_not_finite = False
        self._files = written_files.Kept()
        self._snapshot: _Snapshot | None = None
        """What is being written in the background."""

    def at_border(self, iterator: Any) -> None:
        """Save when it is time to."""
        self._fit.data.look_at(iterator)
        if self._snapshot is not None:
            self.settle(wait=False)
        since = self._fits.steps - self._saved_at_step
        if self._fits.interval.due(since, time.monotonic() - self._saved_at, self._cost()):
            self._save_step()

    def settle(self, wait: bool) -> None:
        """Take note of what was written in the background."""
        outcome = self._fits.background.take(wait)
        if outcome is None or self._snapshot is None:
            return
        snapshot, self._snapshot = self._snapshot, None
        self._write = outcome.seconds
        if outcome.error is not None:
            self._say_failed(outcome.error, "checkpoint")
        elif outcome.result is not None:
            self._note_saved(outcome.result, snapshot)

    def save_now(self) -> None:
        """Save, unless the newest checkpoint is of this very step: the process is about to end."""
        if self._fits.steps != self._saved_at_step:
            self._save_step()
        self.settle(wait=True)

    def save_end(self, history: Any) -> Saved | None:
        """Keep the state that the fit ended in; its other checkpoints are not needed any more."""
        self.settle(wait=True)
        store = self._fits.store()
        if store is None or self._fits.context_lost:
            return None
        started, named = time.monotonic(), self._named()
        changes = self._fit.objects.changed_at_end()
        meta, arrays = self._taken_state(history, changes)
        meta["iterator_of_dataset"] = False
        meta["fingerprint_of_state"] = self._fit.proof.last_state
        meta["fit_seconds"] = round(time.monotonic() - self._began, 1)
        meta["files"], copies = written_files.noted(self._fit.callbacks, self._fits.files.written, self._began_at)
        arrays += copies

        def write(writer: CheckpointWriter) -> None:
            state.write(writer, chain(state.values_of(named), arrays))
            meta["iterator_of_dataset"] = self._save_dataset_iterator(writer)

        saved: Saved | None = self._attempted(lambda: store.save_finished(self._fit.position, meta, write), "end state")
        if saved is not None:
            self._stall, self._write = time.monotonic() - started, 0.0
            self._note_saved(saved, _Snapshot(self._fit.position, self._stall, self._fit.data.obstacle))
            self._fits.note_end_state(saved)
            broken = state.not_finite(named, state.finite_only(self._fit.model, named))
            if broken:
                self._say_not_finite(broken, "that is how the fit has ended")
            else:
                store.drop_steps(self._fit.identity.ordinal)
        return saved

    def _save_step(self) -> None:
        """Take the state while the training stands still, and write it: here, or in the background if that pays."""
        store = self._fits.store()
        self._between_saves = time.monotonic() - self._saved_at
        self._saved_at, self._saved_at_step = time.monotonic(), self._fits.steps
        if store is None or self._fits.context_lost or self._is_compiled_anew():
            return
        started, at = time.monotonic(), self._fit.position
        self.settle(wait=True)
        draft = self._attempted(lambda: self._drafted(store, at), "checkpoint")
        if draft is None:
            return
        try:
            self._write_step(draft, at, started)
        except BaseException:
            draft.abandon()
            raise

    def _write_step(self, draft: Draft, at: Position, started: float) -> None:
        named = self._named()
        meta, own = self._taken_state(self._fit.model.history, self._fit.objects.changed())
        own += self._taken_moment(meta)
        own += self._taken_files(meta)
        self._fit.proof.checkpointed()
        finite = state.finite_only(self._fit.model, named)
        if not self._pays_in_background(named):
            complete = partial(draft.complete, meta, self._writer(lambda: state.values_of(named), own, finite))
            saved = self._attempted(complete, "checkpoint")
            self._stall, self._write = time.monotonic() - started, 0.0
            if saved is not None:
                self._note_saved(saved, _Snapshot(at, self._stall, self._fit.data.not_saved))
            return
        values = list(state.values_of(named))
        self._stall = time.monotonic() - started
        self._snapshot = _Snapshot(at, self._stall, self._fit.data.not_saved)
        self._fits.background.start(partial(draft.complete, meta, self._writer(lambda: values, own, finite)))

    def _is_compiled_anew(self) -> bool:
        """Whether a callback has compiled the model: a restarted script would first have to come to that again."""
        if not self._fit.trained.is_compiled_anew(self._fit.model):
            return False
        reason = "the model was compiled anew within the fit"
        self._fit.note_here("checkpoint-refused", name="", reason=reason)
        kept = f"the one of step {self._fits.saved} stays" if self._fits.saved else "there is none yet"
        self._fits.say_once(f"{reason}: no further checkpoint is taken of it; {kept}")
        return True

    def _drafted(self, store: CheckpointStore, at: Position) -> Draft:
        """A checkpoint begun with the position of the data: that alone has to be written before the next step."""
        draft = store.draft_step(at)
        self._fit.data.save(draft, self._between_saves)
        return draft

    def _writer(
        self, values: Callable[[], Iterable[Array]], own: list[Array], finite: frozenset[str]
    ) -> Callable[[CheckpointWriter], None]:
        def write(writer: CheckpointWriter) -> None:
            state.write(writer, values(), finite)
            state.write(writer, own)

        return write

    def _pays_in_background(self, named: state.Named) -> bool:
        size = sum(slot.nbytes for _, slot in named)
        room = available_bytes()
        if room is not None and size > room * _SHARE_OF_MEMORY:
            return False
        return size >= _BACKGROUND_BYTES or self._stall + self._write >= _BACKGROUND_SECONDS

    def _cost(self) -> Cost:
        return Cost(self._stall, self._write, self._fits.seconds_between_faults())

    def _attempted(self, save: Callable[[], Any], what: str) -> Any:
        """What `save` returns; None, said once, when it fails: the training matters more."""
        try:
            with self._fits.session.pulse.during(Phase.CHECKPOINT):
                return save()
        except _ERRORS as error:
            self._say_failed(error, what)
            return None
        finally:
            self._saved_at = time.monotonic()

    def _say_failed(self, error: Exception, what: str) -> None:
        if isinstance(error, NotFiniteError):
            kept = f"the one of step {self._fits.saved} stays" if self._fits.saved else "there is none yet"
            self._say_not_finite(str(error), f"no checkpoint is taken of that; {kept}")
            return
        reason = str(getattr(error, "message", error)).splitlines()[0][:300]
        self._fit.note_here("checkpoint-failed", reason=reason)
        self._fits.say_once(f"{what} could not be written: {reason.partition(' (')[0]}; training goes on")

    def _say_not_finite(self, name: str, outcome: str) -> None:
        path = state.path_of(self._fit.model, self._named(), name)
        self._fit.note_here("checkpoint-skipped", reason=f"{path} is not finite")
        if self._told_not_finite:
            return
        self._told_not_finite = True
        where = f"epoch {self._fit.epoch + 1}, step {self._fit.step}"
        self._fits.say(f"{path} holds NaN or infinity at {where}: {outcome}")

    def _note_saved(self, saved: Saved, snapshot: _Snapshot) -> None:
        at = snapshot.at
        self._fits.saved = at.steps
        self._fit.write_board()
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
        if not self._told_interval and not saved.name.startswith("finished"):
            self._told_interval = True
            behind = f" and {self._write:.2f} s in the background" if self._write else ""
            rule = self._fits.interval.describe(self._cost())
            self._fits.say(f"checkpoint of {saved.nbytes / 1e6:.1f} MB in {self._stall:.2f} s{behind}; next {rule}")

    def _taken_moment(self, meta: dict[str, Any]) -> list[Array]:
        """What the present iterator over the data started from, where its batches may have to be taken anew."""
        moment = self._fit.data.moment
        if moment is None:
            return []
        objects = None if moment.objects is None else as_meta(moment.objects)
        meta["moment"] = {"random": moment.random, "objects": objects}
        return [] if moment.objects is None else as_arrays(moment.objects, "data/")

    def _taken_files(self, meta: dict[str, Any]) -> list[Array]:
        """What is in the files that this fit writes; after the objects, which flush those that they hold open."""
        states = self._files.states(self._fit.callbacks, self._fits.files.written)
        meta["opened"] = written_files.as_meta(states)
        return written_files.as_arrays(states)

    def _taken_state(self, history: Any, changes: Changes) -> tuple[dict[str, Any], list[Array]]:
        """Everything but variables, copied: what JSON holds, and arrays."""
        fit = self._fit
        untold: list[str] = []
        states, arrays = callbacks.captured(fit.callbacks, untold.append)
        for line in untold:
            self._fits.say_once(line)
        step = fit.model.train_function
        draws = step.draws.values() if isinstance(step, GuardedStep) else []
        arrays += [Array(f"draws/{number}", "int64", value) for number, value in enumerate(draws)]
        arrays += as_arrays(changes, "object/")
        layers = layer_state.own_arrays(fit.model, self._fits.say_once)
        arrays += [Array(f"layer/{name}", value.dtype.name, value) for name, value in layers.items()]
        meta = {
            "site": fit.identity.site,
            "key": fit.identity.key,
            "outline": fit.identity.outline,
            "fingerprint": fit.identity.fingerprint,
            "guard": fit.promise.kind,
            "optimizers": optimizers.weights_of_each(fit.model),
            "random": state.random_state(),
            "history": callbacks.history_state(history),
            "callbacks": states,
            "objects": as_meta(changes),
            "hidden": untold + (step.hidden_state() if isinstance(step, GuardedStep) else []),
            "taken": fit.data.taken,
            "iterators_made": fit.data.iterators_made,
            "iterators_used": fit.data.iterators_used,
            "validated_after": fit.validation.made,
            "validated": fit.validation.is_begun,
            "logs": _numbers(getattr(step, "taken", None)),
            "steps_seen": getattr(fit.epoch_iterator, "_steps_seen", 0),
            "stop_training": bool(fit.model.stop_training),
            "trained": fit.trained.now(fit.model),
            "made_by": fit.beginning.facts(fit.epoch_iterator),
            "learning_rate": fit.beginning.learning_rate,
            "seconds": round(self._fits.trained_seconds(), 1),
            "taken_at": time.time(),
        }
        return meta, arrays

    def _save_dataset_iterator(self, writer: CheckpointWriter) -> bool:
        """The position of a dataset's own shuffle seeds, which the next fit on the same dataset continues."""
        last = getattr(self._fit.epoch_iterator, "_current_iterator", None)
        if not isinstance(self._fit.arguments.get("x"), tf.data.Dataset) or not isinstance(last, tf.data.Iterator):
            return False
        return not iterators.save(last, writer.folder)

    def _named(self) -> state.Named:
        return state.slots_of(self._fit.model, self._fit.model.train_function)

    def count_from(self, steps: int) -> None:
        """The newest checkpoint is one of so many steps of the run."""
        self._fits.saved = self._saved_at_step = steps
        self._saved_at = time.monotonic()

    def set_aside_after(self, steps: int) -> None:
        """Trust no checkpoint that was taken after so many steps of the run."""
        self.settle(wait=True)
        store = self._fits.store()
        if store is not None:
            store.set_aside(steps, "the device has computed wrongly since the last comparison that was clean")


def _numbers(taken: Taken | None) -> dict[str, float]:
    """What the last step has returned, where that is numbers."""
    logs = None if taken is None else taken.logs
    if not isinstance(logs, dict):
        return {}
    found = {}
    for name, value in logs.items():
        try:
            found[str(name)] = float(np.asarray(value))
        except (TypeError, ValueError):
            return {}
    return found
