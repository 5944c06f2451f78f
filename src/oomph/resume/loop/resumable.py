"""ResumableLoop: a loop over `oomph.steps` in the owner process of a run; the counterpart of `Fit`."""

from __future__ import annotations

import time
from types import FrameType
from typing import Any, NoReturn

from oomph.journal.events import AnotherWay, BatchSkipped, FitFinished, FitStarted
from oomph.keras_bridge.batch import batches
from oomph.keras_bridge.runtime.allocator import peak_bytes_of_device
from oomph.protocol.progress import Phase
from oomph.protocol.reasons import because
from oomph.resume.loop.resumption import LoopCheckpoints, LoopResumption
from oomph.resume.loop.running import RunningLoop, recognised, was_edited
from oomph.resume.loop.steps import Steps
from oomph.resume.training import leaving
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import Recognised, Verdict
from oomph.script.kept_micro_batches import Start
from oomph.script.loop_location import enclosing_loops
from oomph.script.preemption import CTRL_C

_MOST_SHOWN = 6


class ResumableLoop(RunningLoop):
    """A running loop. Accepts the same arguments as `RunningLoop`."""

    def __init__(self, fits: Fits, steps: Steps, frame: FrameType | None) -> None:
        super().__init__(fits, steps, frame)
        self.checkpoints = LoopCheckpoints(self)
        self.resumption = LoopResumption(self, self.checkpoints)
        self._lines = enclosing_loops(frame)
        self._asked = 0.0
        """The time at which the loop requested its current batch, on the monotonic clock."""
        self._started, self._first_step, self._stepped = time.monotonic(), fits.steps, False
        self._poison = fits.session.handover.changed("skip-batch")

    # -- start and end ------------------------------------------------------------------------------------------------

    def resume(self) -> int | None:
        """Restore everything and return the epoch to resume from, or None if the loop starts from the beginning."""
        self._settle()
        self.objects.begin(to_be_resumed=self.resumption.checkpoint is not None)
        if self.fits.own_session().is_owner_now():
            self.fits.preemption.arm()
        self._announce()
        self.fits.meter.begin(epochs=None if self.steps.epochs is None else len(self.steps.epochs))
        with self.fits.session.pulse.during(Phase.RESUMING, after=Phase.FIRST_STEP):
            number = self.resumption.go_on()
        self._first_step = self.fits.steps
        self.proof.compare_from(self.steps.number, self.steps.step)
        self._measure_epoch()
        self.write_board()
        return number

    def _settle(self) -> None:
        """Determine whether an earlier attempt started this loop, and assign its number in the run."""
        fits = self.fits
        record = fits.known_state(self.identity, lambda one: was_edited(one, self.facts))
        found = recognised(record, self.facts, fits.took_another_path)
        fits.took_another_path = fits.took_another_path or found.another_path
        self.identity = fits.number(self.identity, record if found.verdict is Verdict.RESUME else None)
        if found.verdict is Verdict.REFUSE:
            reason = because("another-training", what="loop", differences=found.reason)
            leaving.refuse(
                fits,
                self.identity,
                reason,
                "loop",
                by_itself=record is not None and not was_edited(record, self.facts),
            )
        if found.verdict is Verdict.RESUME:
            self.resumption.checkpoint = fits.checkpoint_of(self.identity.ordinal)
            leaving.leave_for_a_common_checkpoint(fits)
        self._tell_another_path(found)

    def _tell_another_path(self, found: Recognised) -> None:
        if found.another_path:
            reason = because("another-path", what="loop", site=self.identity.site, differences=found.reason)
            self.fits.note(AnotherWay(key=self.identity.key, fit=self.identity.ordinal, **reason.as_fields()))
            self.fits.say(f"{reason}: it starts from the beginning")

    def _announce(self) -> None:
        self.fits.note(
            FitStarted(
                fit=self.identity.ordinal,
                key=self.identity.key,
                site=self.identity.site,
                guard="loop",
                reason="",
                fingerprint=self.identity.fingerprint,
                epochs=None if self.steps.epochs is None else len(self.steps.epochs),
                loops=self._lines,
            )
        )
        kinds = self.kinds()
        shown = ", ".join(kinds[:_MOST_SHOWN]) + (", …" if len(kinds) > _MOST_SHOWN else "")
        self.fits.say(f"guarding loop at {self.identity.site} (resumable: state=[{shown}])")

    def finished(self) -> None:
        """Keep the last checkpoint of a loop that ran to completion, and report on the loop."""
        saved = self.checkpoints.finished()
        self.proof.tell(at_the_end=True)
        self.fits.note(
            FitFinished(
                fit=self.identity.ordinal,
                key=self.identity.key,
                steps=self.fits.steps - self._first_step,
                reached=self.fits.steps,
                over=self.is_over,
                micro_batch=None,
                guard="loop",
                seconds=round(time.monotonic() - self._started, 3),
                state=None if saved is None else saved.digest,
                device_peak_bytes=peak_bytes_of_device(),
            )
        )
        self.fits.has_finished(self.identity)
        if self.fits.preemption.asked and self.fits.own_session().is_owner_now():
            self._leave()

    def left(self) -> None:
        """Clean up after the loop, whether it ran to completion, hit a `break`, or raised an exception."""
        self.fits.profile.end()
        self.fits.meter.end()
        self.checkpoints.settle(wait=not self.fits.preemption.is_hurried)
        self.proof.tell(at_the_end=True)

    # -- steps --------------------------------------------------------------------------------------------------------

    def epoch_begins(self, number: int) -> None:
        """Record the state of the data before an epoch's iterator is created."""
        self.data.begins()

    def epoch_began(self) -> None:
        """Record an epoch's new iterator."""
        self.data.look_at(self.steps.iterator)
        self._measure_epoch()

    def at_border(self) -> None:
        """Save a checkpoint if one is due, and exit if preemption was requested. Called between two steps."""
        self.checkpoints.at_border()
        if self.checkpoints.is_to_stop():
            self.checkpoints.save_now()
            self._leave()
        if self._poison:
            self._skip_poison()
        self.fits.profile.before_step(self.fits.steps)
        self._asked = time.perf_counter()

    def taken(self, batch: Any) -> None:
        """Measure and fingerprint a batch before the loop's body receives it."""
        if not batches.is_dataset_iterator(self.steps.iterator):  # TensorFlow's own iterators are measured elsewhere
            self.fits.meter.wait.add(time.perf_counter() - self._asked)
        self.fits.meter.count_examples(batches.size_of(batch) or 0)
        self.proof.taken(self.steps.number, self.steps.step, batch)

    def stepped(self) -> None:
        """Count a step and write its witness once the loop's body is done with the batch."""
        self.fits.profile.after_step(self.fits.steps + 1)
        if not self._stepped:
            self._stepped = True
            self.variables.look_again()
        self.fits.steps += 1
        self.proof.stepped(self.steps.number, self.steps.step - 1)
        self.fits.beat(Phase.LOOP)
        self.write_board()
        self.fits.meter.stepped(
            self.steps.step, self.fits.steps, micro_batch=getattr(self.last_guarded, "micro_batch", None)
        )

    def _measure_epoch(self) -> None:
        self.fits.meter.begin_epoch(self.steps.number, self.steps.step, self.steps.length)

    def _skip_poison(self) -> None:
        """Skip the batches of steps that failed twice, if the user allows that (`--skip-poison`)."""
        here = f"fit {self.identity.ordinal + 1}, epoch {self.steps.number + 1}, step {self.steps.step + 1}"
        while here in self._poison:
            self._poison.remove(here)
            self.steps.drop()
            self.note_here(BatchSkipped())
            self.fits.say(f"skipping the batch at {here}")

    def _leave(self) -> NoReturn:
        if self.fits.preemption.asked == CTRL_C:  # in a fit, `intercept` handles the exception
            leaving.tell_interrupted(self.fits, self.note_here)
        leaving.leave_as_asked(self.fits, self.note_here)

    # -- guarded steps in the body ------------------------------------------------------------------------------------

    def saw_guarded(self, step: Any) -> None:
        """Record a step that the loop's body takes under `oomph.guard`."""
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
        """Restart from the checkpoint after a guarded step failed, if that can help; otherwise raise its error."""
        leaving.go_back_or_give_up(self.fits, self.identity, error, phase, reason, begin)
