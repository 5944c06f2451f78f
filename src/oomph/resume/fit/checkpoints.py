"""FitCheckpoints decides when to save a fit, and what to save."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.checkpoint.container import CheckpointWriter, Position
from oomph.checkpoint.interval import SHARE
from oomph.checkpoint.manifest import Meta, said
from oomph.checkpoint.store import CheckpointStore, Saved
from oomph.exact_step.step.step_protocol import Taken
from oomph.journal.events import CheckpointRefused
from oomph.keras_bridge import models
from oomph.keras_bridge.names.keras3 import KERAS
from oomph.keras_bridge.stateful_random_ops import functions_with_draws
from oomph.objects.picture import Changes
from oomph.protocol.reasons import Reason, as_data, because
from oomph.resume.fit import callbacks, model_state, written_files
from oomph.resume.fit.running import RunningFit
from oomph.resume.state import iterators, training_state
from oomph.resume.state.training_state import Array
from oomph.resume.training.fit_objects import as_saved
from oomph.resume.training.step_checkpoints import StateSnapshot, StepCheckpoints, sizes_of

_LEAST_SECONDS, _BYTES_PER_SECOND = 0.02, 5e8
"""The assumed cost of an end state until one is measured: a minimum in seconds, plus a rate in bytes per second."""


class FitCheckpoints(StepCheckpoints):
    """Saves a fit between steps, once all callbacks of the previous step have run, and at the end."""

    def __init__(self, fit: RunningFit) -> None:
        super().__init__(fit)
        self._fit = fit
        self._began, self._began_at = time.monotonic(), time.time()
        self._files = written_files.Kept()
        self.end_state_was_too_dear = False

    def at_border(self, iterator: Any) -> None:
        """Save if a checkpoint is due."""
        self._fit.data.look_at(iterator)
        self._look_for_written()
        if self._is_due():
            self._save()

    def save_end(self, history: Any) -> Saved | None:
        """Save the fit's end state, after which its other checkpoints are no longer needed."""
        self.settle(wait=True)
        store = self._store()
        if store is None or self._fits.context_lost:
            return None
        started, named = time.monotonic(), self._named()
        if not self._can_afford_end(named):
            self._is_finite_at_end(named)
            return None
        changes = self._fit.objects.changed_at_end()
        meta, arrays = self._taken_state(history, changes)
        files, copies = written_files.noted(self._fit.callbacks, self._fits.files.written, self._began_at)
        meta = replace(
            meta,
            fingerprint_of_state=self._fit.proof.last_state,
            fit_seconds=round(time.monotonic() - self._began, 1),
            files=files,
        )

        def write(writer: CheckpointWriter) -> None:
            training_state.write(writer, chain(training_state.values_of(named), arrays, copies))

        def save() -> Saved:
            draft = store.draft_finished(self._fit.position)
            is_saved = draft.filled(lambda: self._save_dataset_iterator(draft.folder))
            return draft.complete(replace(meta, iterator_of_dataset=is_saved), write)

        saved: Saved | None = self._attempted(save, "end state")
        if saved is not None:
            self._stall, self._write = time.monotonic() - started, 0.0
            self._fits.end_state_seconds = self._stall
            self._note_saved(saved, StateSnapshot(self._fit.position, self._stall, self._fit.data.obstacle))
            self._fits.note_end_state(saved)
            if self._is_finite_at_end(named):
                store.drop_steps(self._fit.position)
        return saved

    def _is_finite_at_end(self, named: training_state.Named) -> bool:
        """True if all weights are finite. The weights are checked because a ReLU can hide their NaN from the loss."""
        broken = training_state.not_finite(named, training_state.finite_only(self._fit.model, named))
        if broken:
            self._say_not_finite(broken, self._fit.position, "the fit ended in this state", "the end state unchanged")
        return not broken

    def _can_afford_end(self, named: training_state.Named) -> bool:
        """True if saving the end state stays within the share of time for checkpoints, which many short fits exceed."""
        fits, expected = self._fits, self._fits.end_state_seconds
        if fits.preemption.asked or self._borders is not None:
            return True  # the process exits right after this and must not lose any steps; or all workers need it alike
        if not expected:
            expected = _LEAST_SECONDS + sum(slot.nbytes for _, slot in named) / _BYTES_PER_SECOND
        if fits.interval.end_state_is_due(fits.trained_seconds(), fits.saving_seconds, expected):
            return True
        self.end_state_was_too_dear = True
        fits.say_once(
            f"the end states of short fits, such as the one at {self._fit.identity.site}, are not kept: they would take"
            f" more than {SHARE:.0%} of the time; after a restart, such a fit trains again",
            about="end states that are too expensive",
        )
        return False

    def _save_step(self, store: CheckpointStore, at: Position, started: float) -> None:
        draft = store.draft_step(at)
        try:
            self._fit.data.save(draft, self._between_saves)  # first, since its shuffle buffer advances
            named = self._named()
            changes = self._fit.objects.changed()
            meta, own = self._taken_state(self._fit.model.history, changes)
            self._look_at_growth(sizes_of(changes, own, _names_in(meta)))
            moment, arrays = self._fit.data.taken_moment()
            opened = self._files.states(self._fit.callbacks, self._fits.files.written)  # last: objects may flush files
            meta = replace(meta, moment=moment, opened=written_files.as_meta(opened))
            own += [*arrays, *written_files.as_arrays(opened)]
            self._fit.proof.checkpointed()
            self._complete(
                draft, (meta, own), named, training_state.finite_only(self._fit.model, named),
                lambda: StateSnapshot(at, time.monotonic() - started, self._fit.data.not_saved),
            )  # fmt: skip
        except BaseException:
            draft.abandon()
            raise

    def _can_be_saved(self) -> bool:
        """False once a callback has recompiled the model, since a restarted script would not have recompiled it yet."""
        if not self._fit.trained.is_compiled_anew(self._fit.model):
            return True
        reason = because("recompiled")
        self._fit.note_here(CheckpointRefused(name="", **reason.as_fields()))
        kept = f"the checkpoint of step {self._fits.saved} is kept" if self._fits.saved else "there is none yet"
        self._fits.warn_once(f"{reason}: no further checkpoints will be taken; {kept}")
        return False

    def _taken_state(self, history: Any, changes: Changes) -> tuple[Meta, list[Array]]:
        """Copy everything except variables, and return the JSON part and the arrays."""
        fit = self._fit
        untold: list[Reason] = []
        states, arrays = callbacks.captured(fit.callbacks, untold.append)
        for line in untold:
            self._fits.say_once(str(line))
        arrays += model_state.draws_as_arrays(fit.model)
        objects, of_objects = as_saved(changes, "object/")
        history_so_far, of_history, not_in_history = callbacks.history_state(history)
        untold += not_in_history
        arrays += [*of_objects, *of_history]
        layers = models.own_arrays(fit.model, self._fits.say_once)
        arrays += [Array(f"layer/{name}", value.dtype.name, value) for name, value in layers.items()]
        meta = Meta(
            site=fit.identity.site,
            key=fit.identity.key,
            outline=fit.identity.outline,
            cell=fit.identity.cell,
            fingerprint=fit.identity.fingerprint,
            guard=fit.promise.kind,
            optimizers=models.weights_of_each(fit.model),
            random=training_state.random_state(),
            history=history_so_far,
            callbacks=states,
            objects=objects,
            hidden=as_data([*untold, *model_state.hidden_draws(fit.model), *functions_with_draws(fit.functions)]),
            taken=fit.data.taken,
            told=fit.data.told,
            iterators_made=fit.data.iterators_made,
            iterators_used=fit.data.iterators_used,
            validated_after=fit.validation.made,
            validated=fit.validation.is_begun,
            logs=_numbers(getattr(fit.model.train_function, "taken", None)),
            steps_seen=KERAS.steps_seen.get(fit.epoch_iterator, 0),
            stop_training=bool(fit.model.stop_training),
            trained=fit.trained.now(fit.model),
            made_by=fit.beginning.facts(fit.epoch_iterator),
            learning_rate=fit.beginning.learning_rate,
            seconds=round(self._fits.trained_seconds(), 1),
            taken_at=time.time(),
        )
        return meta, arrays

    def _save_dataset_iterator(self, folder: Path) -> bool:
        """Save the position in a dataset's shuffle seeds, from which the next fit on the same dataset continues."""
        last = KERAS.current_iterator.get(self._fit.epoch_iterator)
        if not isinstance(self._fit.arguments.get("x"), tf.data.Dataset) or not isinstance(last, tf.data.Iterator):
            return False
        return not (iterators.is_caching(last) or iterators.save(last, folder))

    def _named(self) -> training_state.Named:
        return training_state.slots_of(self._fit.model, self._fit.model.train_function)

    def _path_of(self, name: str) -> str:
        return training_state.path_of(self._fit.model, self._named(), name)

    def set_aside_after(self, steps: int) -> None:
        """Set aside all checkpoints that were taken after this many steps of the run."""
        self.settle(wait=True)
        store = self._fits.store()
        if store is not None:
            store.set_aside(steps, "the device has produced wrong results since the last clean comparison")


def _names_in(meta: Meta) -> dict[str, list[str]]:
    """Describe the callbacks and the History that own arrays, by the prefix of the array names."""
    history = [f"{document['list'][0]} in the History" for document in said(meta.history)["history"]]
    return {callbacks.HISTORY: history, "callback/": [f"callback {each['class']}" for each in meta.callbacks or ()]}


def _numbers(taken: Taken | None) -> dict[str, float]:
    """Return the logs of the last step if they are all numbers, or an empty dict otherwise."""
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
