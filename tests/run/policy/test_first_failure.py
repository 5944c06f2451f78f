"""Which of several workers' failures is the cause."""

from __future__ import annotations

from itertools import permutations

import pytest

from oomph.run.policy.decide import Ending, Finish, GiveUp, Ledger, Restart, decide, record
from oomph.run.policy.first_failure import WorkerEnding, cause_of, left_alone

KILLED = WorkerEnding(1, Ending(-9, "killed"))
ABORTED_BY_A_PEER = WorkerEnding(2, Ending(-6, "worker-lost"))
LOST = WorkerEnding(0, Ending(1, "worker-lost"))
OWN_ERROR = WorkerEnding(3, Ending(1, "unrelated"))
FROZEN = WorkerEnding(4, Ending(-9, "hang", hung=True), is_frozen=True)
PREEMPTED = WorkerEnding(5, Ending(75, "exit code 75", preempted="SIGTERM"))


@pytest.mark.parametrize("cause", [KILLED, OWN_ERROR, FROZEN, PREEMPTED])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_lost_connection_never_outranks_its_cause(cause: WorkerEnding, order: tuple[int, ...]) -> None:
    failures = (cause, LOST, ABORTED_BY_A_PEER)
    assert cause_of([failures[index] for index in order]) is cause


def test_first_of_two_failures_of_the_same_kind_is_the_cause() -> None:
    other = WorkerEnding(0, Ending(-9, "killed"))
    assert cause_of([other, KILLED]) is other
    assert cause_of([KILLED, other]) is KILLED


def test_death_outranks_an_error_that_may_follow_from_it() -> None:
    assert cause_of([OWN_ERROR, KILLED]) is KILLED


def test_fault_between_workers_is_worth_a_restart_but_not_forever() -> None:
    ending, ledger = Ending(1, "worker-lost", worker=0, between_workers=True), Ledger()
    actions = []
    for _ in range(4):
        actions.append(decide(ending, ledger))
        ledger = record(ending, actions[-1], ledger)
    assert [type(action) for action in actions] == [Restart, Restart, Restart, GiveUp]
    assert decide(Ending(1, "worker-lost"), Ledger()) == Finish(1)


def test_worker_that_finished_early_is_named_with_its_steps() -> None:
    assert left_alone("worker 1", []) == ""
    assert left_alone("worker 1", [("worker 0", 20)]) == (
        "worker 0 ended with exit code 0 after 20 steps while worker 1 still trained: the workers take different"
        " numbers of steps"
    )
