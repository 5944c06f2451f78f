from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.run.policy.decide import (
    MOST_IN_ALL,
    MOST_WITHOUT_CHECKPOINT,
    Action,
    Ending,
    Finish,
    GiveUp,
    Ledger,
    Requeue,
    Restart,
    decide,
    record,
    without_unasked,
)
from oomph.run.policy.ladder import LADDERS, MOST_SAME, OPT_IN, SAME, Change, Conditions


def play(
    endings: Iterable[Ending], conditions: Conditions | None = None, allowed: Collection[str] = ()
) -> list[Action]:
    """Return the sequence of actions up to the one that ends the run."""
    ledger, actions = Ledger(), []
    for ending in endings:
        actions.append(decide(ending, ledger, conditions, allowed))
        ledger = record(ending, actions[-1], ledger)
        if not isinstance(actions[-1], Restart):
            break
    return actions


@pytest.mark.parametrize("code", [0, 1, 3, 93, 255])
def test_script_exit_code_is_passed_on(code: int) -> None:
    assert decide(Ending(code, "unrelated"), Ledger()) == Finish(code)


@pytest.mark.parametrize("signum", [1, 2, 13, 15])
def test_intended_signal_stops_the_run_with_the_shells_exit_code(signum: int) -> None:
    assert decide(Ending(-signum, "x"), Ledger()) == Finish(128 + signum)


@pytest.mark.parametrize("signum", [4, 6, 7, 8, 9, 11])
def test_crash_leads_to_a_restart(signum: int) -> None:
    assert decide(Ending(-signum, "crash", steps=5), Ledger()) == Restart("crash")


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (Ending(-15, "x", stopped=True), Finish(130)),
        (Ending(-9, "killed", stopped=True), Finish(130)),
        (Ending(75, "x", preempted="SIGTERM"), Finish(130)),
        (Ending(5, "x", stopped=True), Finish(5)),
        (Ending(1, "device-oom", gave_up="one sample does not fit"), GiveUp("one sample does not fit")),
        (Ending(-11, "crash"), Restart("crash")),
    ],
)
def test_ctrl_c_is_recognised_whatever_signal_killed_the_script(ending: Ending, expected: Action) -> None:
    assert decide(replace(ending, interrupted=True), Ledger()) == expected


@pytest.mark.parametrize("signum", [1, 2, 15])
def test_signal_between_two_attempts_cancels_the_next_one(signum: int) -> None:
    crash = Ending(-11, "crash", started=False, called_off=signum)
    assert decide(crash, Ledger()) == Finish(128 + signum)
    assert decide(Ending(0, "x", called_off=signum), Ledger()) == Finish(0)


@pytest.mark.parametrize(("signum", "code"), [(1, 129), (2, 130), (15, 75)])
def test_sigterm_between_two_attempts_requeues_a_training_run(signum, code) -> None:
    assert decide(Ending(-11, "crash", steps=5, called_off=signum), Ledger()).exit_code == code


def test_run_gives_up_on_a_repeated_fault_once_the_budget_is_spent() -> None:
    actions = play([Ending(-9, "killed", steps=12)] * 10)
    assert [type(action) for action in actions] == [Restart] * MOST_SAME + [GiveUp]
    assert actions[-1] == GiveUp("killed 4 times without any progress in between", 93)


def test_each_fault_has_its_own_budget() -> None:
    endings = [Ending(-9, "killed", steps=12), Ending(-11, "segfault", steps=12)] * MOST_SAME
    assert all(isinstance(action, Restart) for action in play(endings))


def test_progress_beyond_the_best_failure_refills_the_budget() -> None:
    endings = [Ending(-9, "killed", steps=steps, saved=steps) for steps in range(10, 200, 10)]
    assert all(isinstance(action, Restart) for action in play(endings))


def test_repeated_steps_do_not_refill_the_budget() -> None:
    actions = play(Ending(-9, "killed", steps=steps, saved=5) for steps in (12, 11, 12, 10, 12, 12))
    assert isinstance(actions[-1], GiveUp)
    assert len(actions) == MOST_SAME + 1


def test_run_eventually_gives_up_if_progress_is_never_saved() -> None:
    actions = play(Ending(-9, "killed", steps=steps, saved=0) for steps in range(1, 100))
    assert isinstance(actions[-1], GiveUp)
    assert len(actions) == MOST_WITHOUT_CHECKPOINT + 1


def test_script_that_never_starts_training_is_retried_once() -> None:
    actions = play([Ending(-11, "segfault", started=False)] * 5)
    assert [type(action) for action in actions] == [Restart, GiveUp]
    assert actions[-1] == GiveUp("the script ended before any training began, twice (segfault)", 93)


def test_successful_start_resets_the_count_of_failed_starts() -> None:
    endings = [Ending(-9, "a", started=False), Ending(-9, "b", steps=5), Ending(-9, "a", started=False)]
    assert all(isinstance(action, Restart) for action in play(endings))


@pytest.mark.parametrize("returncode", [0, 1, 86, -6])
def test_guard_requested_restart_happens_whatever_the_exit_code(returncode: int) -> None:
    ending = Ending(returncode, "device-oom", steps=5, restart_requested="out of memory in the update")
    assert decide(ending, Ledger()) == Restart("out of memory in the update")


def test_new_process_with_a_smaller_micro_batch_does_not_count_as_the_same_again() -> None:
    """Not even one sample fits next to what a larger micro-batch has left in memory; in a fresh process it may."""
    failed = Ending(75, "device-oom", place=(0, 0, 0), same_data=True, restart_requested="no room")
    smaller = [replace(failed, micro_batch=size) for size in (4, 1)]
    assert [type(action) for action in play([*smaller, failed])] == [Restart, Restart, GiveUp]
    assert len(play([smaller[-1]] * 100)) == MOST_WITHOUT_CHECKPOINT + 1


def test_run_whose_guard_gave_up_exits_with_93() -> None:
    assert decide(Ending(1, "device-oom", gave_up="one sample does not fit"), Ledger()) == GiveUp(
        "one sample does not fit", 93
    )


@pytest.mark.parametrize("returncode", [-9, -15, -6, 0, 1])
def test_run_stopped_on_purpose_is_never_restarted(returncode: int) -> None:
    ending = Ending(returncode, "killed", stopped=True, restart_requested="x", gave_up="x")
    assert isinstance(decide(ending, Ledger()), Finish)


def changes(actions: Iterable[Action]) -> list[str]:
    """Return what each restart changed."""
    return [str(action.change.name) if action.change else SAME for action in actions if isinstance(action, Restart)]


GPU = Conditions(gpus=("GPU-a", "GPU-b"), xla=True, samples=64, resumed_from="step-2", older_checkpoints=1)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("device-oom", [SAME, "micro-batch", "allocator", "growth", "no-xla"]),
        ("host-oom", [SAME, "prefetch", "micro-batch"]),
        ("illegal-memory-access", [SAME, "no-xla", "older-checkpoint", SAME, SAME]),
        ("xla-compile-failure", ["no-xla"]),
        ("hang", [SAME, SAME, "older-checkpoint", SAME]),
        ("killed", [SAME] * MOST_SAME),
    ],
)
def test_fault_ladder_is_climbed_one_change_at_a_time(fault: str, expected: list[str]) -> None:
    actions = play([Ending(-6, fault, steps=5)] * 20, GPU)
    assert changes(actions) == expected
    assert isinstance(actions[-1], GiveUp)


def test_change_that_does_not_apply_is_skipped() -> None:
    actions = play([Ending(-6, "device-oom", steps=5)] * 20, Conditions())
    assert changes(actions) == [SAME]


@pytest.mark.parametrize("name", ["allocator", "growth", "no-xla", "precision"])
def test_change_already_in_effect_is_skipped(name: str) -> None:
    def climbed(conditions: Conditions) -> list[str]:
        ending, ledger, made = Ending(-6, "device-oom", steps=5), Ledger(), []
        while isinstance(action := decide(ending, ledger, conditions, OPT_IN), Restart):
            ledger, made = record(ending, action, ledger), [*made, action]
        return changes(made)

    assert climbed(replace(GPU, in_effect=(name,))) == [each for each in climbed(GPU) if each != name]


def test_micro_batch_is_halved_from_the_size_that_failed() -> None:
    ledger, sizes, at = Ledger(), [], 64
    for _ in range(3):
        action = decide(Ending(-6, "device-oom", steps=5), ledger, Conditions(samples=at))
        ledger = record(Ending(-6, "device-oom", steps=5), action, ledger)
        if isinstance(action, Restart) and action.change:
            at = int(action.change.value)
            sizes.append(at)
    assert sizes == [32, 16]


def test_changes_stay_in_effect_after_progress() -> None:
    ledger = Ledger()
    for steps in (5, 5, 50, 50):
        ending = Ending(-6, "xla-compile-failure", steps=steps)
        ledger = record(ending, decide(ending, ledger, GPU), ledger)
    assert ledger.changes == (Change("no-xla"),)


def test_broken_gpu_is_excluded_but_the_last_one_requires_another_machine() -> None:
    broken = Ending(-6, "hardware-fault", steps=5)
    conditions = Conditions(gpus=("GPU-a", "GPU-b"), broken_gpu="GPU-a")
    assert decide(broken, Ledger(), conditions) == Restart("hardware-fault", Change("exclude-gpu", "GPU-a"), 0)
    alone = play([broken] * 5, Conditions(gpus=("GPU-a",), broken_gpu="GPU-a"))
    assert changes(alone) == [SAME]
    assert isinstance(alone[-1], Requeue)
    assert alone[-1].exit_code == 75


@pytest.mark.parametrize("fault", ["abort", "segmentation-fault", "hang", "something-new"])
def test_step_failing_twice_on_the_same_data_is_a_poison_step(fault: str) -> None:
    ending = Ending(-6, fault, steps=5, place=(0, 1, 5), same_data=True)
    actions = play([ending] * 5)
    assert changes(actions) == [SAME]
    assert actions[-1] == GiveUp(
        f"poison step: fit 1, epoch 2, step 6 failed with {fault} twice on the same data; --skip-poison would skip its"
        " batch"
    )


@pytest.mark.parametrize("fault", ["device-oom", "device-oom-fragmentation"])
def test_step_that_runs_out_of_memory_twice_is_reported_as_a_memory_shortage(fault: str) -> None:
    ending = Ending(93, fault, steps=5, place=(0, 1, 5), same_data=True, restart_requested=fault)
    assert play([ending] * 5)[-1] == GiveUp(
        "fit 1, epoch 2, step 6 ran out of memory twice, with nothing left to change: it needs a smaller batch or more"
        " memory"
    )


REFUSED = (
    "its second optimizer depends on weights that the first one updated; --allow-smaller-batch trains on smaller "
    "batches"
)


def test_batch_that_must_not_be_split_gets_no_micro_batches() -> None:
    ending = Ending(75, "device-oom", place=(0, 0, 0), same_data=True, restart_requested="device-oom")
    actions = play([ending] * 9, replace(GPU, refused=REFUSED))
    assert changes(actions) == [SAME, "allocator", "growth", "no-xla"], "other remedies are still tried"
    assert actions[-1] == GiveUp(
        "fit 1, epoch 1, step 1 ran out of memory twice, with nothing left to change: it needs a smaller batch or more"
        f" memory; micro-batches are refused: {REFUSED}"
    )


def test_reason_for_giving_up_says_why_the_batch_was_not_split() -> None:
    """With different data, it is not a poison step, and unchanged restarts are tried first."""
    (*_, last) = play([Ending(-6, "device-oom", steps=5)] * 9, replace(GPU, refused=REFUSED))
    assert last == GiveUp(f"device-oom 5 times without any progress in between; micro-batches are refused: {REFUSED}")
    (*_, last) = play([Ending(-6, "abort", steps=5)] * 9, replace(GPU, refused=REFUSED))
    assert isinstance(last, GiveUp)
    assert "micro-batches" not in last.reason, "they would not have helped"


def test_poison_step_leads_to_changes_before_giving_up() -> None:
    ending = Ending(-6, "abort", steps=5, place=(0, 1, 5), same_data=True)
    assert changes(play([ending] * 5, GPU)) == [SAME, "no-xla", "older-checkpoint"]


def test_poison_batch_is_skipped_only_if_allowed() -> None:
    ending = Ending(-6, "abort", steps=5, place=(0, 1, 5), same_data=True)
    actions = play([ending] * 9, allowed=("skip-batch",))
    assert changes(actions) == [SAME, "skip-batch", "skip-batch", "skip-batch"]
    assert actions[1] == Restart("abort", Change("skip-batch", "fit 1, epoch 2, step 6"), actions[1].rung)


@pytest.mark.parametrize("fault", ["killed", "host-oom", "worker-lost"])
def test_external_fault_is_not_a_poison_step(fault: str) -> None:
    ending = Ending(-9, fault, steps=5, place=(0, 1, 5), same_data=True)
    assert len(changes(play([ending] * 9))) > 1


def test_different_data_or_faults_are_not_a_poison_step() -> None:
    other_data = Ending(-6, "abort", steps=5, place=(0, 1, 5), same_data=False)
    assert changes(play([other_data] * 9)) == [SAME] * 3
    faults = [Ending(-6, fault, steps=5, place=(0, 1, 5), same_data=True) for fault in ("abort", "hang", "abort")]
    assert changes(play(faults)) == [SAME] * 3


def test_mathematical_change_requires_its_flag() -> None:
    endings = [Ending(-6, "device-oom", steps=5)] * 20
    assert "precision" not in changes(play(endings, GPU))
    assert changes(play(endings, GPU, allowed=("precision",)))[-1] == "precision"


def test_preempted_run_is_requeued_and_not_restarted() -> None:
    action = decide(Ending(75, "exit code 75", stopped=True, preempted="SIGTERM"), Ledger())
    assert action == Requeue("preempted by SIGTERM", 75)


@pytest.mark.parametrize(
    "ending", [Ending(-15, "hang", hung=True), Ending(1, "illegal-memory-access", context_lost=True)]
)
def test_hang_and_lost_context_lead_to_a_restart_whatever_the_exit_code(ending: Ending) -> None:
    assert isinstance(decide(ending, Ledger()), Restart)


def test_xla_compile_failure_is_retried_once_without_xla() -> None:
    ending = Ending(1, "xla-compile-failure", not_compiled=True)
    assert play([ending] * 3, GPU) == [Restart("xla-compile-failure", Change("no-xla"), 0), Finish(1)]
    assert decide(ending, Ledger(), replace(GPU, xla=False)) == Finish(1)
    assert decide(replace(ending, not_compiled=False), Ledger(), GPU) == Finish(1)


def test_another_allocator_is_tried_on_fragmented_memory_before_giving_up() -> None:
    ending = Ending(1, "device-oom-fragmentation", gave_up="one sample does not fit", in_pieces=True)
    assert changes(actions := play([ending] * 9, GPU)) == [SAME, "allocator"]
    assert actions[-1] == GiveUp("one sample does not fit")
    assert decide(ending, Ledger()) == GiveUp("one sample does not fit")  # no GPU


def test_restarts_are_limited_for_the_whole_run() -> None:
    actions = play(Ending(-9, "killed", steps=steps, saved=steps) for steps in range(1, 2 * MOST_IN_ALL))
    assert len(actions) == MOST_IN_ALL + 1


@pytest.mark.parametrize("fault", LADDERS)
def test_run_eventually_gives_up_on_alternating_faults(fault: str) -> None:
    endings = [Ending(-6, name, steps=5) for name in (fault, "killed", "abort", "hang")] * 20
    assert not isinstance(play(endings, GPU)[-1], Restart)


_ENDINGS = st.builds(
    Ending,
    returncode=st.sampled_from([-9, -11, -6, 1, 0]),
    fault=st.sampled_from(["a", "b", "c"]),
    started=st.booleans(),
    steps=st.integers(0, 50),
    saved=st.integers(0, 50),
    restart_requested=st.sampled_from(["", "reason"]),
    place=st.sampled_from([None, (0, 0, 1), (0, 1, 0)]),
    same_data=st.booleans(),
)


@given(st.lists(_ENDINGS, min_size=1, max_size=400))
def test_every_run_ends_after_a_bounded_number_of_restarts(endings: list[Ending]) -> None:
    """Repeating the last ending terminates, and the restarts before it never cost more than the progress they allow."""
    actions = play([*endings, *[endings[-1]] * 50], allowed=("skip-batch",))
    most = (len({e.steps for e in endings}) + 1) * MOST_SAME * 3 + 1
    assert not isinstance(actions[-1], Restart)
    assert len(actions) <= most
    assert len(actions) <= MOST_IN_ALL + 1


def test_mathematical_changes_end_with_the_option_that_allowed_them() -> None:
    """A journal may say that a batch is skipped, but only the options of the current start decide whether it is."""
    ledger = Ledger(changes=(Change("skip-batch", "fit 1, epoch 1, step 2"), Change("no-xla"), Change("precision")))
    assert [each.name for each in without_unasked(ledger, ()).changes] == ["no-xla"]
    assert without_unasked(ledger, OPT_IN) == ledger


def test_batch_that_does_not_fit_a_worker_twice_is_not_tried_a_third_time() -> None:
    """Nothing that oomph can change helps: under the strategy the batch is not split."""
    failed = Ending(
        75, "device-oom", place=(0, 0, 4), same_data=True, restart_requested="out of memory", worker=1, steps=4
    )
    actions = play([failed] * 9, replace(GPU, refused="restart only, MultiWorkerMirroredStrategy"))
    assert [type(each) for each in actions] == [Restart, GiveUp]
    assert actions[-1].reason == (
        "worker 1: fit 1, epoch 1, step 5 ran out of memory twice, with nothing left to change: it needs a smaller"
        " batch or more memory; micro-batches are refused: restart only, MultiWorkerMirroredStrategy"
    )


def test_batch_that_a_worker_may_split_is_made_smaller_for_all() -> None:
    failed = Ending(75, "device-oom", place=(0, 0, 4), same_data=True, restart_requested="out of memory", worker=1)
    first, second = play([failed] * 2, Conditions(samples=64))
    assert (first.change, second.change) == (None, Change("micro-batch", "32"))
