"""Watches, in the script process, steps outside a guarded fit: evaluate, predict, `train_on_batch`, nested fits."""

from __future__ import annotations

from typing import Any, NoReturn

from oomph.exact_step.micro_batch.exactness import Promise
from oomph.exact_step.step.probe import ProbeFinding
from oomph.exact_step.step.step_protocol import Failure, Recovery, Step
from oomph.journal.events import GuardFailed, Oom, Recovered, TrainedOutsideFit
from oomph.protocol.progress import Phase
from oomph.resume.loop import loops
from oomph.resume.training import leaving
from oomph.resume.training.fits import Fits
from oomph.resume.training.identity import call_site
from oomph.script.kept_micro_batches import Start

_NOT_RESUMABLE = "guarding steps outside a resumable fit: recovered in process, not checkpointed"


class WatchedSteps:
    """Watches steps that are recovered in process, but neither counted nor checkpointed.

    Args:
        fits: the fits of this process, for its journal.
        during: what the script called, such as "evaluate".
    """

    compares_batches = False

    def __init__(self, fits: Fits, during: str) -> None:
        self._fits, self._during = fits, during

    def before_step(self, step: Step, iterator: Any) -> None:
        pass

    def after_step(self) -> None:
        self._beat_in_validation(Phase.VALIDATION)

    def _beat_in_validation(self, phase: Phase) -> None:
        if self._fits.session.pulse.phase in (Phase.VALIDATION_START, Phase.VALIDATION, Phase.RECOVERING):
            self._fits.beat(phase)

    def failed(self, failure: Failure) -> None:
        self._beat_in_validation(Phase.RECOVERING)
        self._fits.note(
            Oom(during=self._during, batch=failure.batch, micro_batch=failure.micro_batch, phase=failure.phase,
            message=failure.oom.line, requested_bytes=failure.oom.requested_bytes, seconds=round(failure.seconds, 3),
        ))  # fmt: skip

    def recovered(self, recovery: Recovery) -> None:
        self._fits.note(
            Recovered(during=self._during, batch=recovery.batch, micro_batch=recovery.micro_batch,
            ooms=recovery.ooms, seconds=round(recovery.seconds, 3),
        ))  # fmt: skip
        self._fits.say(
            f"recovered in {recovery.seconds:.1f} s: {self._during} runs its batch of {recovery.batch} as"
            f" micro-batches of {recovery.micro_batch}"
        )

    def probed(self, promise: Promise, finding: ProbeFinding) -> None:
        self._fits.note_probe(promise, finding, during=self._during)

    def not_recoverable(self, error: BaseException, phase: str, reason: str, begin: Start | None) -> NoReturn:
        leaving.go_back_or_give_up(self._fits, error, reason, can_restart=False)

    def guard_broken(self, error: BaseException) -> None:
        self._fits.note(GuardFailed(reason=f"{type(error).__name__}: {error}"[:2000]))


class TrainingOutsideFit(WatchedSteps):
    """Watches training steps outside a guarded fit, and reports once that the script trains there."""

    def __init__(self, fits: Fits) -> None:
        super().__init__(fits, "train_on_batch")

    def before_step(self, step: Step, iterator: Any) -> None:
        if not loops.within_a_training() and self._fits.say_once(_NOT_RESUMABLE):
            self._fits.note(TrainedOutsideFit(site=call_site()))
        size = self._fits.session.handover.guarding.micro_batch
        if size is not None:
            step.begin_with(Start(size))

    def after_step(self) -> None:
        super().after_step()
        loops.note_step()
