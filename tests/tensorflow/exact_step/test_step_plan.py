"""What a step does after each outcome: a table of every transition."""

from __future__ import annotations

import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import EXACT, REFUSED, SMALLER, Promise
from oomph.exact_step.step.out_of_memory import COMMIT, COMPUTE, INPUT, Failed
from oomph.exact_step.step.step_plan import Action, Observed, StepPlan, next_plan
from oomph.keras_bridge.runtime.errors import as_out_of_memory
from oomph.script.kept_micro_batches import Start

TEXT = "OOM when allocating tensor with shape[8,8] and type float on /job:localhost/device:CPU:0 by allocator cpu"
ERROR = tf.errors.ResourceExhaustedError(None, None, TEXT)
FRESH = Start(1, guessed=True)


def failed(phase=COMPUTE, samples=None):
    return Failed(as_out_of_memory(ERROR), ERROR, phase, samples=samples)


def after(action, result, before=None, **observed):
    plan = StepPlan(action, failed=before, ooms=0 if before is None else 1)
    return next_plan(plan, result, Observed(**{"size": 8, "next_size": 2, **observed}))


def test_new_batch_is_tried_whole_unless_already_splitting():
    assert StepPlan.first(8, is_whole=True).action is Action.WHOLE
    assert StepPlan.first(8, is_whole=False).action is Action.PROBE
    assert StepPlan.first(0, is_whole=False).action is Action.WHOLE, "nothing to split"


@pytest.mark.parametrize("action", [Action.WHOLE, Action.WITHOUT_PINS, Action.DIVIDED, Action.SMALLER])
def test_a_step_is_finished_once_it_returns_logs(action):
    plan = after(action, {"loss": 1.0})
    assert (plan.action, plan.logs, plan.is_over) == (Action.DONE, {"loss": 1.0}, True)


@pytest.mark.parametrize(
    ("action", "observed", "then"),
    [
        (Action.WHOLE, {}, Action.PROBE),
        (Action.WHOLE, {"fits_without_pins": True}, Action.WITHOUT_PINS),
        (Action.WITHOUT_PINS, {"fits_without_pins": True}, Action.PROBE),
        (Action.DIVIDED, {}, Action.DIVIDED),
        (Action.SMALLER, {}, Action.SMALLER),
    ],
)
def test_a_failure_before_any_assignment_is_handled_within_the_step(action, observed, then):
    plan = after(action, failed(), **observed)
    assert (plan.action, plan.ooms, plan.failed.error, plan.is_over) == (then, 1, ERROR, False)


DOING = {COMMIT: "applying the update", INPUT: "reading a batch"}


@pytest.mark.parametrize("action", [Action.WHOLE, Action.WITHOUT_PINS, Action.DIVIDED, Action.SMALLER])
@pytest.mark.parametrize("phase", [COMMIT, INPUT])
def test_a_failure_that_may_have_changed_variables_requires_a_new_process(action, phase):
    plan = after(action, failed(phase, samples=4))
    assert (plan.action, plan.reason) == (Action.RESTART, f"out of memory while {DOING[phase]}")
    assert plan.begin == Start(2)


def test_new_process_enlarges_parts_only_after_a_full_batch_failed():
    assert after(Action.WHOLE, failed(COMMIT)).begin == Start(2, guessed=True)
    assert after(Action.DIVIDED, failed(COMMIT, samples=4)).begin == Start(2)
    assert after(Action.WHOLE, failed(INPUT), size=None).begin is None


def test_new_process_starts_without_micro_batches_where_they_are_refused():
    plan = after(Action.WHOLE, failed(COMMIT), may_be_split=False)
    assert (plan.action, plan.reason, plan.begin) == (Action.RESTART, "out of memory while applying the update", None)


def test_tensors_of_different_lengths_cannot_be_split():
    plan = after(Action.WHOLE, failed(), size=None, next_size=None)
    assert (plan.action, plan.reason) == (
        Action.RESTART, "the tensors of the batch have different numbers of samples",
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "then"), [(EXACT, Action.DIVIDED), (SMALLER, Action.SMALLER)])
@pytest.mark.parametrize("before", [None, failed()])
def test_the_batch_is_split_when_the_verdict_allows_it(kind, then, before):
    assert after(Action.PROBE, Promise(kind), before).action is then


def test_unsplittable_batch_is_tried_whole_unless_it_has_already_failed():
    refused = Promise(REFUSED, "coupled")
    assert after(Action.PROBE, refused).action is Action.WHOLE
    plan = after(Action.PROBE, refused, failed(), fresh=FRESH)
    assert (plan.action, plan.reason, plan.begin) == (Action.RESTART, "micro-batches are refused: coupled", FRESH)


@pytest.mark.parametrize(("action", "result"), [(Action.PROBE, Promise(EXACT)), (Action.DIVIDED, failed())])
def test_plan_restarts_if_not_even_one_sample_fits(action, result):
    plan = after(action, result, failed(), next_size=None, fresh=FRESH, need=": it needs 4 GiB")
    assert (plan.action, plan.begin) == (Action.RESTART, FRESH)
    assert plan.reason == "not even one sample fits in the memory left after the full batch failed"
    plan = after(action, result, failed(), next_size=None, need=": it needs 4 GiB")
    assert (plan.action, plan.begin, plan.reason) == (Action.RESTART, None, "one sample does not fit: it needs 4 GiB")
    plan = after(action, result, failed(), next_size=None, need=": it needs 4 GiB", fitted=True)
    assert plan.reason == "one sample no longer fits: it needs 4 GiB"
