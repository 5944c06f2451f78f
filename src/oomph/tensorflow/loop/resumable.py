"""ResumableLoop: one loop over `oomph.steps` in the owner process of a run. It is to a loop what Fit is to a fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn
from weakref import WeakSet

from oomph.recovery.checkpoint.container import Position
from oomph.recovery.protocol.phases import Phase
from oomph.recovery.script.kept_micro_batches import Start
from oomph.recovery.script.loop_location import enclosing_loops
from oomph.tensorflow.loop.checkpoints import LoopCheckpoints
from oomph.tensorflow.loop.data import LoopData
from oomph.tensorflow.loop.description import facts_of, recognised, was_edited
from oomph.tensorflow.loop.names import CarriedNames
from oomph.tensorflow.loop.objects import LoopObjects
from oomph.tensorflow.loop.proof import LoopProof
from oomph.tensorflow.loop.resumption import LoopResumption
from oomph.tensorflow.loop.roots import roots_of
from oomph.tensorflow.loop.steps import Steps
from oomph.tensorflow.loop.variables import LoopVariables
from oomph.tensorflow.random_numbers.uncheckpointed_ops import functions_with_draws
from oomph.tensorflow.runtime.allocator import DeviceMemory
from oomph.tensorflow.state import training_state
from oomph.tensorflow.state.training_state import Array
from oomph.tensorflow.training.fit_objects import as_arrays, as_meta
from oomph.tensorflow.training.fits import Fits
from oomph.tensorflow.training.identity import FitIdentity
from oomph.tensorflow.training.recognition import Recognised, Verdict

_MOST_SHOWN = 6


class ResumableLoop:
    """One running loop.

    Args:
        fits: the fits and loops of this process.
        steps: the loop, as the script sees it.
        frame: of the script, that the loop runs in.
    """

    def __init__(self, fits: Fits, steps: Steps, frame: FrameType | None) -> None:
        self.fits, self.steps = fits, steps
        self._roots = roots_of(steps.state)
        self._held: list[Any] = []
        self.variables = LoopVariables([(root.name, root.thing) for root in self._roots if root.pair is None])
        self.objects = LoopObjects(self._roots, self.variables, steps.source.dataset, self._held)
        self.data = LoopData(fits, self.objects, steps.source)
        self.facts = facts_of(self._roots, self.variables, steps.source, steps.epochs, dict(steps.place.turn))
        self._rates = dict(self._learning_rates())
        kinds = ", ".join(root.kind for root in self._roots)
        self.identity: FitIdentity = fits.identify_at(steps.place, f"loop over {kinds}")
        self.checkpoints = LoopCheckpoints(self)
        self.resumption = LoopResumption(self)
        self.proof = LoopProof(self, fits.witnesses)
        self.functions: WeakSet[Any] = WeakSet()
        """The functions of TensorFlow's that the body has called."""
        self._guarded: list[Any] = []
        """The guarded steps that the body has taken, in their order."""
        self.last_guarded: Any = None
        """The guarded step that the body has taken last."""
        self._draws_to_come: list[list[Any]] = []
        self._lines = enclosing_loops(frame)
        self._names = CarriedNames(frame, {*self.variables.seen(), *self.objects.at_entry.graph.by_id})
        self._started, self._first_step, self._stepped = time.monotonic(), fits.steps, False
        self._poison = fits.session.handover.changed("skip-batch")

    # -- start and end ------------------------------------------------------------------------------------------------

    def resume(self) -> int | None:
        """The number of the epoch to go on in, everything put back; None when the loop begins at its beginning."""
        self._settle()
        self.objects.begin(to_be_resumed=self.resumption.checkpoint is not None)
        if self.fits.own_session().is_owner_now():
            self.fits.preemption.arm()
        self._announce()
        with self.fits.session.pulse.during(Phase.RESUMING, after=Phase.FIRST_STEP):
            number = self.resumption.go_on()
        self._first_step = self.fits.steps
        self.proof.compare_from(self.steps.number, self.steps.step)
        self.write_board()
        return number

    def _settle(self) -> None:
        """Whether an earlier attempt has begun this loop, and its number in the run."""
        fits = self.fits
        record = fits.known_state(self.identity, lambda one: was_edited(one, self.facts))
        found = recognised(record, self.facts, fits.came_another_way)
        fits.came_another_way = fits.came_another_way or found.another_way
        self.identity = fits.number(self.identity, record if found.verdict is Verdict.RESUME else None)
        if found.verdict is Verdict.REFUSE:
            reason = f"the checkpoint is of another loop: {found.reason}"
            fits.refuse(
                self.identity.site, reason, "loop", by_itself=record is not None and not was_edited(record, self.facts)
            )
        if found.verdict is Verdict.RESUME:
            self.resumption.checkpoint = fits.checkpoint_of(self.identity.ordinal)
        self._tell_another_way(found)

    def _tell_another_way(self, found: Recognised) -> None:
        if found.another_way:
            reason = f"the script came to loop at {self.identity.site} another way than before ({found.reason})"
            self.fits.note("another-way", key=self.identity.key, fit=self.identity.ordinal, reason=reason)
            self.fits.say(f"{reason}: it begins at its beginning")

    def _announce(self) -> None:
        self.fits.note(
            "fit-started",
            fit=self.identity.ordinal,
            key=self.identity.key,
            site=self.identity.site,
            guard="loop",
            reason="",
            fingerprint=self.identity.fingerprint,
            epochs=None if self.steps.epochs is None else len(self.steps.epochs),
            loops=self._lines,
        )
        kinds = [root.kind for root in self._roots]
        shown = ", ".join(kinds[:_MOST_SHOWN]) + (", …" if len(kinds) > _MOST_SHOWN else "")
        self.fits.say(f"guarding loop at {self.identity.site} (resumable: state=[{shown}])")

    def finished(self) -> None:
        """The loop has come to its end by itself."""
        saved = self.checkpoints.finished()
        self.proof.tell(at_the_end=True)
        self.fits.note(
            "fit-finished",
            fit=self.identity.ordinal,
            key=self.identity.key,
            steps=self.fits.steps - self._first_step,
            micro_batch=None,
            guard="loop",
            seconds=round(time.monotonic() - self._started, 3),
            state=None if saved is None else saved.digest,
            device_peak_bytes=DeviceMemory.of_training_device().peak_bytes(),
        )
        if self.fits.preemption.asked and self.fits.own_session().is_owner_now():
            self._leave_preempted()

    def left(self) -> None:
        """The loop is over: by its end, by `break`, or by an exception."""
        self.checkpoints.settle(wait=True)
        self.proof.tell(at_the_end=True)

    # -- its steps ----------------------------------------------------------------------------------------------------

    def epoch_begins(self, number: int) -> None:
        """Before the iterator of an epoch is made."""
        self.data.begins()

    def epoch_began(self) -> None:
        """After that."""
        self.data.look_at(self.steps.iterator)

    def at_border(self) -> None:
        """Between two steps: checkpoint when it is time to, and end when somebody wants that."""
        self.checkpoints.at_border()
        if self.fits.preemption.asked and self.fits.own_session().is_owner_now():
            self.checkpoints.save_now()
            self._leave_preempted()
        if self._poison:
            self._skip_poison()

    def taken(self, batch: Any) -> None:
        """The body gets a batch."""
        self.proof.taken(self.steps.number, self.steps.step, batch)

    def stepped(self) -> None:
        """The body is through with it."""
        if not self._stepped:
            self._stepped = True
            self.variables.look_again()
        self.fits.steps += 1
        self.proof.stepped(self.steps.number, self.steps.step - 1)
        self.fits.beat(Phase.LOOP)
        self.write_board()

    def _skip_poison(self) -> None:
        """Leave out the batches that the user has allowed to be left out, of steps that have failed twice."""
        here = f"fit {self.identity.ordinal + 1}, epoch {self.steps.number + 1}, step {self.steps.step + 1}"
        while here in self._poison:
            self._poison.remove(here)
            self.steps.drop()
            self.note_here("batch-skipped")
            self.fits.say(f"the batch at {here} is left out")

    def _leave_preempted(self) -> None:
        """A scheduler takes the machine away, and what there is to save is saved: end here."""
        signal_name = self.fits.preemption.asked
        self.note_here("preempted", signal=signal_name, steps=self.fits.steps, saved=self.fits.saved)
        self.fits.say(f"{signal_name}: {self.fits.saved} of {self.fits.steps} steps are saved; ending")
        self.fits.leave_process()

    # -- saving and giving back ---------------------------------------------------------------------------------------

    def prepare_to_save(self) -> None:
        """See what there is to be saved now."""
        self.variables.look_again()
        held = self.steps.held()
        can_be_saved = all(map(_can_be_saved, held))
        self._held[:] = held if can_be_saved else []
        self.data.taken = self.steps.drawn - (0 if can_be_saved else len(held))
        if not can_be_saved:
            self.data.obstacle = "a batch of it was taken ahead, for ends_epoch"

    def taken_state(self) -> tuple[dict[str, Any], list[Array]]:
        """Everything but variables, copied: what JSON holds, and arrays."""
        self.proof.checkpointed()
        changes = self.objects.changed()
        told, arrays, untold = self.objects.told()
        changes.lost += [*untold, *self._carried()]
        arrays += as_arrays(changes, "object/")
        draws = [step.draws.values() for step in self._guarded]
        arrays += [
            Array(f"draws/{n}/{m}", "int64", value) for n, values in enumerate(draws) for m, value in enumerate(values)
        ]
        meta = {
            "site": self.identity.site,
            "key": self.identity.key,
            "outline": self.identity.outline,
            "fingerprint": self.identity.fingerprint,
            "guard": "loop",
            "random": training_state.random_state(),
            "objects": as_meta(changes),
            "own": told,
            "hidden": [*functions_with_draws(self.functions), *self._hidden_in_steps()],
            "draws": [len(values) for values in draws],
            "taken": self.data.taken,
            "iterators_made": self.data.iterators_made,
            "iterators_used": self.data.iterators_used,
            "loop_steps": self.steps.steps,
            "made": self.variables.made_by(),
            "made_by": self.facts,
            "learning_rates": self._rates,
            "seconds": round(self.fits.trained_seconds(), 1),
            "taken_at": time.time(),
        }
        return meta, arrays + self.data.taken_moment(meta)

    def _carried(self) -> list[str]:
        """The variables of the script that the loop has changed and that nobody saves, in words; said once."""
        names = self._names.changed()
        if names:
            shown = ", ".join(names[:_MOST_SHOWN])
            self.fits.say_once(
                f"the loop at {self.identity.site} carries on {shown}, which state= does not hold: after a restart as"
                " before the loop"
            )
        return [f"{name}, which the loop carries on and state= does not hold" for name in names]

    def take_held(self) -> None:
        """The batches that an earlier attempt had taken ahead come next."""
        self.steps.ahead[:] = self._held

    def keep_edited_learning_rates(self, before: dict[str, float]) -> list[str]:
        """After a restore: the learning rates of an edited script are meant; returns what was done, in words."""
        found = []
        for key, optimizer in self.variables.optimizers():
            then, now = before.get(key), self._rates.get(key)
            if then is not None and now is not None and then != now:
                _innermost(optimizer).learning_rate = now
                found.append(f"learning rate of {key}: {then:g} → {now:g}")
        return found

    def _learning_rates(self) -> Iterator[tuple[str, float]]:
        """What the script sets before the loop, where it is no schedule."""
        for key, optimizer in self.variables.optimizers():
            rate: Any = getattr(_innermost(optimizer), "_learning_rate", None)
            if hasattr(rate, "numpy"):
                yield key, float(rate.numpy())

    # -- guarded steps within -----------------------------------------------------------------------------------------

    def saw_guarded(self, step: Any) -> None:
        """The body takes a step that `oomph.guard` guards."""
        self.last_guarded = step
        if any(step is known for known in self._guarded):
            return
        self._guarded.append(step)
        if self._draws_to_come:
            step.draws.restore(self._draws_to_come.pop(0))
        begin = self.fits.remembered_micro_batch(self.identity)
        if begin is not None:
            step.begin_with(begin)

    def go_back(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        """A guarded step cannot be completed: back to the checkpoint where that can help, else the script's error."""
        if begin is not None:
            self.fits.remember_micro_batch(self.identity, begin)
        self.fits.go_back_or_give_up(error, reason, phase in ("commit", "input") or begin is not None)

    def restore_draws(self, arrays: dict[str, Any], counts: list[int]) -> None:
        """The random numbers that guarded steps have drawn, to be given back when each comes."""
        self._draws_to_come = [[arrays[f"{n}/{m}"] for m in range(count)] for n, count in enumerate(counts)]

    def _hidden_in_steps(self) -> list[str]:
        return [hidden for step in self._guarded for hidden in step.hidden_state()]

    # -- what it tells ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        """The next step."""
        return Position(self.identity.ordinal, self.steps.number, self.steps.step, self.fits.steps)

    @property
    def where(self) -> str:
        """The next step, for people."""
        return f"epoch {self.steps.number + 1}, step {self.steps.step + 1}"

    def note_here(self, event: str, /, **data: Any) -> None:
        """Write an event with the place where the loop is."""
        self.fits.note(event, fit=self.identity.ordinal, epoch=self.steps.number, step=self.steps.step, **data)

    def write_board(self) -> None:
        """Bring the progress board up to date."""
        board = self.fits.session.board
        if board is not None:
            board.write(
                self.identity.ordinal, self.steps.number, self.steps.step, self.fits.steps, self.fits.saved
            )  # fmt: skip


def _innermost(optimizer: Any) -> Any:
    """The optimizer within one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _can_be_saved(batch: Any) -> bool:
    """Whether a batch is nothing but tensors and arrays."""
    import numpy as np
    import tensorflow as tf

    def can_be(leaf: Any) -> bool:
        return isinstance(leaf, np.ndarray) or (isinstance(leaf, tf.Tensor) and hasattr(leaf, "numpy"))

    return all(map(can_be, tf.nest.flatten(batch)))
