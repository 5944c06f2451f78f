"""RunningLoop: the facts, state and position of the running loop, used for its checkpoints and proof."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any
from weakref import WeakSet

from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.checkpoint.store import Record
from oomph.journal.events import AtStep
from oomph.keras_bridge.models import innermost, learning_rate_of
from oomph.keras_bridge.stateful_random_ops import functions_with_draws
from oomph.keras_bridge.workers import spans_workers, with_saved_iterators
from oomph.protocol.reason_table import TAKEN_AHEAD
from oomph.protocol.reasons import Reason, as_data, because
from oomph.resume.loop.data import LoopData
from oomph.resume.loop.names import CarriedNames
from oomph.resume.loop.proof import LoopProof
from oomph.resume.loop.state import LoopObjects, LoopVariables, Root, roots_of
from oomph.resume.loop.steps import Source, Steps
from oomph.resume.state import training_state
from oomph.resume.state.training_state import Array
from oomph.resume.training import provenance
from oomph.resume.training.fit_objects import as_saved
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import FitIdentity, Recognised, Verdict
from oomph.resume.training.provenance import CONFIGURATION, DATA, ENVIRONMENT, SCRIPT, SETTINGS, STRUCTURE, TURN, Facts
from oomph.resume.training.step_checkpoints import Sizes, sizes_of


def facts_of(
    roots: list[Root],
    variables: LoopVariables,
    source: Source,
    epochs: Sequence[int] | None,
    settings: dict[str, str],
    turn: dict[str, Any],
) -> Facts:
    """Collect the facts that identify a loop, before anything is restored."""
    weights = {f"weights of {root}": shapes for root in roots if (shapes := variables.shapes(root.name))}
    return {
        **provenance.facts_around(),
        STRUCTURE: weights,
        CONFIGURATION: {"epochs": None if epochs is None else str(epochs)},
        SETTINGS: settings,
        TURN: turn,
        DATA: {
            "kind of data": type(source.dataset).__name__,
            "elements of the data": str(getattr(source.dataset, "element_spec", None)),
            "batches in an epoch": source.length(),
        },
    }


def recognised(record: Record | None, facts: Facts, took_another_path: bool) -> Recognised:
    """Decide what happens to a loop, given the latest state that an earlier attempt saved for it.

    Args:
        record: the saved state, or None if there is none.
        facts: the facts of the loop at its start.
        took_another_path: True if an earlier fit or loop was not the one expected at that point.
    """
    if record is None:
        return Recognised(Verdict.TRAIN)
    before, edited = record.meta.made_by, was_edited(record, facts)
    structure = provenance.changes(before, facts, STRUCTURE)
    if record.finished or (structure and took_another_path):
        return Recognised(Verdict.TRAIN, provenance.listed(structure) or "a fit, not a loop", another_path=True)
    if structure:
        return Recognised(Verdict.REFUSE, provenance.listed(structure))
    others = provenance.changes(before, facts, TURN, DATA)
    if others and not edited:
        return Recognised(Verdict.TRAIN, provenance.listed(others), another_path=True)
    return Recognised(Verdict.RESUME)


def was_edited(record: Record, facts: Facts) -> bool:
    """True if the script has changed since the state was saved."""
    return bool(provenance.changes(record.meta.made_by, facts, SCRIPT, ENVIRONMENT))


def other_data(before: Facts, now: Facts) -> bool:
    """True if the data differs from the checkpoint's data, because the script was edited."""
    return bool(provenance.changes(before, now, DATA))


_MOST_SHOWN = 6


class RunningLoop:
    """The facts, state and position of one running loop.

    Args:
        fits: the fits and loops of this process.
        steps: the loop as the script sees it.
        frame: the frame of the script that the loop runs in.
    """

    def __init__(self, fits: Fits, steps: Steps, frame: FrameType | None) -> None:
        self.fits, self.steps = fits, steps
        self._roots = roots_of(steps.state)
        self._held: list[Any] = []
        steps.source.dataset = with_saved_iterators(self.strategy, steps.source.dataset)
        self.variables = LoopVariables([(root.name, root.thing) for root in self._roots if root.pair is None])
        self.objects = LoopObjects(self._roots, self.variables, steps.source.dataset, self._held)
        self.data = LoopData(fits, self.objects, steps.source)
        settings, turn = self.objects.settings(), dict(steps.place.turn)
        self.facts = facts_of(self._roots, self.variables, steps.source, steps.epochs, settings, turn)
        self._rates = dict(self._learning_rates())
        self.identity: FitIdentity = fits.identify_at(steps.place, f"loop over {', '.join(self.kinds())}")
        self.lost: list[Reason] = []
        """The reasons why parts of the state were not restored."""
        self.proof = LoopProof(self, fits.witnesses)
        self.functions: WeakSet[Any] = WeakSet()
        """The `tf.function`s that the loop's body has called."""
        self._guarded: list[Any] = []
        """The distinct guarded steps that the body has taken, in order."""
        self.last_guarded: Any = None
        """The latest guarded step that the body took."""
        self.sizes: Sizes = {}
        """The sizes of the loop's objects in the last checkpoint, in bytes."""
        self._draws_to_come: list[list[Any]] = []
        self._new = {key for key, optimizer in self.variables.optimizers() if provenance.is_new(optimizer)}
        self.is_over = False
        """True if an earlier attempt trained at least as many epochs as the script asks for now."""
        self._names = CarriedNames(frame, {*self.variables.seen(), *self.objects.at_entry.graph.by_id})

    def kinds(self) -> list[str]:
        """Return the class names of the objects in the loop's state, for messages."""
        return [root.kind for root in self._roots]

    @property
    def strategy(self) -> Any:
        """The strategy over several processes under which the loop's state lives, or None."""
        known = (getattr(root.thing, "distribute_strategy", None) for root in self._roots)
        return next(filter(spans_workers, known), None)

    @property
    def steps_at_once(self) -> int:
        """The number of steps between two borders."""
        return 1

    # -- saving and restoring -----------------------------------------------------------------------------------------

    def prepare_to_save(self) -> None:
        """Find the variables and the batches read ahead, so that they can be saved."""
        self.variables.look_again()
        held = self.steps.held()
        can_be_saved = all(map(_can_be_saved, held))
        self._held[:] = held if can_be_saved else []
        self.data.taken = self.steps.drawn - (0 if can_be_saved else len(held))
        if not can_be_saved:
            why = "a batch was read ahead, for ends_epoch"
            self.data.obstacle = because("position-not-saved", why=why, kind=TAKEN_AHEAD)

    def taken_state(self) -> tuple[Meta, list[Array]]:
        """Copy everything except variables, and return the JSON part and the arrays."""
        self.proof.checkpointed()
        changes = self.objects.changed()
        told, arrays, untold = self.objects.told()
        changes.lost += [*untold, *self._carried()]
        self.sizes = sizes_of(changes)
        objects, of_objects = as_saved(changes, "object/")
        arrays += of_objects
        draws = [step.draws.values() for step in self._guarded]
        hidden = [reason for step in self._guarded for reason in step.hidden_state()]
        arrays += [
            Array(f"draws/{n}/{m}", "int64", value) for n, values in enumerate(draws) for m, value in enumerate(values)
        ]
        moment, of_the_data = self.data.taken_moment()
        meta = Meta(
            moment=moment,
            site=self.identity.site,
            key=self.identity.key,
            outline=self.identity.outline,
            cell=self.identity.cell,
            fingerprint=self.identity.fingerprint,
            guard="loop",
            random=training_state.random_state(),
            objects=objects,
            own=told,
            hidden=as_data([*functions_with_draws(self.functions), *hidden]),
            draws=[len(values) for values in draws],
            taken=self.data.taken,
            told=self.data.told,
            iterators_made=self.data.iterators_made,
            iterators_used=self.data.iterators_used,
            loop_steps=self.steps.steps,
            made=self.variables.made_by(),
            made_by=self.facts,
            learning_rates=self._rates,
            seconds=round(self.fits.trained_seconds(), 1),
            taken_at=time.time(),
        )
        return meta, arrays + of_the_data

    def _carried(self) -> list[Reason]:
        """Return a reason for each script variable that the loop has changed but that isn't saved, and warn once."""
        names = self._names.changed()
        if names:
            shown = ", ".join(names[:_MOST_SHOWN])
            self.fits.warn_once(
                f"the loop at {self.identity.site} changes {shown}, which is not in state=: a restart begins "
                "with the values from before the loop"
            )
        return [because("changed-by-loop", name=name) for name in names]

    def take_held(self) -> None:
        """Continue with the batches that an earlier attempt read ahead."""
        self.steps.ahead[:] = self._held

    def keep_edited_learning_rates(self, before: dict[str, float], edited: bool) -> list[Reason]:
        """Apply the learning rates that the script sets after a restore, if they are new; return the changes.

        If an optimizer had already taken steps before the loop, its rate may come from a file that the script loaded.

        Args:
            before: the learning rates in the checkpoint.
            edited: True if the script was edited after the checkpoint.
        """
        found = []
        for key, optimizer in self.variables.optimizers():
            then, now = before.get(key), self._rates.get(key)
            is_set = edited or key in self._new
            if is_set and then is not None and now is not None and then != now:
                innermost(optimizer).learning_rate = now
                name = f"learning rate of {key}"
                found.append(because("value-changed", name=name, was=f"{then:g}", now=f"{now:g}"))
        return found

    def _learning_rates(self) -> Iterator[tuple[str, float]]:
        """Yield the learning rates that the script sets before the loop, except for schedules."""
        for key, optimizer in self.variables.optimizers():
            rate = learning_rate_of(optimizer)
            if rate is not None:
                yield key, rate

    def restore_draws(self, arrays: dict[str, Any], counts: list[int]) -> None:
        """Keep the guarded steps' random draw counts, and restore each one when its step first runs."""
        self._draws_to_come = [[arrays[f"{n}/{m}"] for m in range(count)] for n, count in enumerate(counts)]

    # -- reporting ----------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The position of the next step."""
        return Position(self.identity.ordinal, self.steps.number, self.steps.step, self.fits.steps)

    @property
    def where(self) -> str:
        """A description of the next step's position, for messages."""
        return f"epoch {self.steps.number + 1}, step {self.steps.step + 1}"

    def note_here(self, fact: AtStep) -> None:
        """Write an event to the journal, with the loop's position."""
        self.fits.note(fact.with_fields(fit=self.identity.ordinal, epoch=self.steps.number, step=self.steps.step))

    def write_board(self) -> None:
        """Update the progress board."""
        self.fits.write_board(self.identity.ordinal, self.steps.number, self.steps.step)


def _can_be_saved(batch: Any) -> bool:
    """True if a batch consists only of tensors and arrays."""
    import numpy as np
    import tensorflow as tf

    def can_be(leaf: Any) -> bool:
        return isinstance(leaf, np.ndarray) or (isinstance(leaf, tf.Tensor) and hasattr(leaf, "numpy"))

    return all(map(can_be, tf.nest.flatten(batch)))
