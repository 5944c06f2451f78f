"""The state of a step on one batch, and the step's next action, computed by pure functions.

The full batch is tried first. If it does not fit, a probe decides whether micro-batches may replace it, and sizes are
tried until one fits. A failure that cannot be repaired within the step ends the process, and a new one starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from oomph.exact_step.micro_batch.exactness import SMALLER, Promise
from oomph.exact_step.step.out_of_memory import COMMIT, COMPUTE, INPUT, Failed
from oomph.script.kept_micro_batches import Start

_DOING = {COMMIT: "applying the update", INPUT: "reading a batch"}


class Action(Enum):
    """The next action of a step."""

    WHOLE = "try the full batch"
    WITHOUT_PINS = "try the full batch once more, without holding the variables"
    PROBE = "find out whether the batch may be split"
    DIVIDED = "try micro-batches"
    SMALLER = "train on smaller batches"
    RESTART = "leave the step to a new process, or to the script"
    DONE = "return the logs"


@dataclass(frozen=True)
class StepPlan:
    """A step's next action, and the events that led to it."""

    action: Action
    failed: Failed | None = None
    """The last failure of the step, or None if nothing has failed."""
    ooms: int = 0
    """The number of times that the step has run out of memory."""
    logs: Any = None
    """Keras' logs, once the step is done."""
    reason: str = ""
    """The reason why a new process is needed."""
    begin: Start | None = None
    """The micro-batch that the new process starts with."""

    @classmethod
    def first(cls, size: int | None, is_whole: bool) -> StepPlan:
        """Return the plan for a new batch of `size` samples, which starts out whole or in micro-batches."""
        return cls(Action.WHOLE if is_whole or not size else Action.PROBE)

    @property
    def is_over(self) -> bool:
        """True if the step has nothing left to do."""
        return self.action in (Action.DONE, Action.RESTART)

    def restart(self, reason: str, begin: Start | None = None) -> StepPlan:
        """Return the plan that leaves the step to a new process, which starts with the micro-batch `begin`."""
        return replace(self, action=Action.RESTART, reason=reason, begin=begin)


@dataclass(frozen=True)
class Observed:
    """The facts that decide the next action, measured after the previous one."""

    size: int | None
    """The number of samples in the batch, or None if its tensors disagree."""
    next_size: int | None
    """The micro-batch to try next, in samples, or None if not even one sample fits."""
    fits_without_pins: bool = False
    """True if the batch may have failed only because the variables were held as well."""
    fresh: Start | None = None
    """The micro-batch for a new process to start with if nothing fits in this one, or None if that would be useless."""
    need: str = ""
    """The memory that one sample would need, as text."""
    may_be_split: bool = True
    """False if a probe has ruled out micro-batches for this batch."""
    fitted: bool = False
    """True if an earlier step of this training run fitted into memory, whole or in micro-batches."""


def next_plan(plan: StepPlan, result: Any, observed: Observed) -> StepPlan:
    """Return the plan that follows the last action's result: logs, Failed, or a probe's Promise."""
    if isinstance(result, Promise):
        return _after_probe(plan, result, observed)
    if isinstance(result, Failed):
        return _after_failure(replace(plan, failed=result, ooms=plan.ooms + 1), result, observed)
    return replace(plan, action=Action.DONE, logs=result)


def _after_probe(plan: StepPlan, promise: Promise, observed: Observed) -> StepPlan:
    if not promise.refused:
        divided = replace(plan, action=Action.SMALLER if promise.kind == SMALLER else Action.DIVIDED)
        return divided if plan.failed is None else _in_parts(divided, observed)
    if plan.failed is None:  # this batch may fit as a whole
        return replace(plan, action=Action.WHOLE)
    return plan.restart(f"micro-batches are refused: {promise.reason}", observed.fresh)


def _after_failure(plan: StepPlan, failed: Failed, observed: Observed) -> StepPlan:
    if failed.phase != COMPUTE:
        return plan.restart(f"out of memory while {_DOING[failed.phase]}", _begin_smaller(failed, observed))
    if plan.action in (Action.DIVIDED, Action.SMALLER):
        return _in_parts(plan, observed)
    if observed.size is None:
        return plan.restart("the tensors of the batch have different numbers of samples")
    without_pins = plan.action is Action.WHOLE and observed.fits_without_pins
    return replace(plan, action=Action.WITHOUT_PINS if without_pins else Action.PROBE)


def _in_parts(plan: StepPlan, observed: Observed) -> StepPlan:
    if observed.next_size is not None:
        return plan
    if observed.fresh is not None:
        return plan.restart("not even one sample fits in the memory left after the full batch failed", observed.fresh)
    fits = "no longer fits" if observed.fitted else "does not fit"
    return plan.restart(f"one sample {fits}{observed.need}")


def _begin_smaller(failed: Failed, observed: Observed) -> Start | None:
    """Return the smaller micro-batch for a new process to start with after a failure during the assignments."""
    if observed.size is None or observed.next_size is None or not observed.may_be_split:
        return None
    # Micro-batches fit, but their update did not: larger ones would leave it even less memory.
    was_whole = failed.samples in (None, observed.size)
    return Start(observed.next_size, guessed=was_whole and not failed.oom.whole_step)
