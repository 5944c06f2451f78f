"""What becomes of a worker that cannot start again alone, given how the others have ended."""

from __future__ import annotations

import pytest

from oomph.run.policy.decide import Action, Ending, Finish, GiveUp, Requeue, Restart
from oomph.run.policy.first_failure import WorkerOutcome, concluded, first_cause, outcome_of

KILLED = Ending(-9, "killed")
LOST = Ending(1, "worker-lost", between_workers=True)


def _other(
    code: int, fault: str = "", rank: int = 1, returncode: int | None = None, asked: bool = False
) -> WorkerOutcome:
    consequence = fault == "worker-lost"
    return WorkerOutcome(
        rank, f"node{rank}", code, code if returncode is None else returncode, fault, consequence, asked
    )


@pytest.mark.parametrize(
    ("action", "ending", "others", "expected"),
    [
        (Finish(0), Ending(0, ""), [_other(0)], Finish(0)),
        (
            Finish(0),
            Ending(0, ""),
            [_other(1, "unrelated")],
            GiveUp("worker 1 on node1 ended with exit code 1 (unrelated), which another start would repeat"),
        ),
        (Restart("killed"), KILLED, [], Requeue("worker 0 on node0 ended by SIGKILL (killed)")),
        (
            Restart("killed"),
            KILLED,
            [_other(75, "worker-lost")],
            Requeue("worker 0 on node0 ended by SIGKILL (killed)"),
        ),
        (
            Restart("worker-lost"),
            LOST,
            [_other(75, "killed", returncode=-9)],
            Requeue("worker 1 on node1 ended by SIGKILL (killed)"),
        ),
        (
            Restart("worker-lost"),
            LOST,
            [_other(1, "unrelated")],
            GiveUp("worker 1 on node1 ended with exit code 1 (unrelated), which another start would repeat"),
        ),
        (
            Requeue("preempted by SIGTERM"),
            Ending(75, "", preempted="SIGTERM"),
            [_other(93, "device-oom", returncode=1)],
            GiveUp("worker 1 on node1 ended with exit code 1 (device-oom), which another start would repeat"),
        ),
        (
            Restart("worker-lost"),
            LOST,
            [_other(75, "SIGTERM", asked=True)],
            Requeue("worker 1 on node1 was stopped by the scheduler"),
        ),
        (Finish(1), Ending(1, "unrelated"), [_other(93, "device-oom")], Finish(1)),
        (GiveUp("again"), Ending(1, "device-oom"), [_other(1)], GiveUp("worker 0 on node0 cannot go on (again)")),
        (Finish(138), Ending(-10, "SIGUSR1"), [], Requeue("worker 0 on node0 was stopped by SIGUSR1")),
        (Finish(137), Ending(-9, "killed", stopped=True), [], Requeue("worker 0 on node0 was stopped by SIGKILL")),
        (
            Finish(143),
            Ending(-15, "SIGTERM", stopped=True),
            [_other(75, "killed", returncode=-9)],
            Requeue("worker 1 on node1 ended by SIGKILL (killed)"),
        ),
        (Finish(130), Ending(-2, "SIGINT", stopped=True, interrupted=True), [], Finish(130)),
    ],
)
def test_worker_ends_as_the_scheduler_has_to_understand_it(
    action: Action, ending: Ending, others: list[WorkerOutcome], expected: Action
) -> None:
    assert concluded(action, ending, outcome_of(0, "node0", ending, action), others, ()) == expected


def test_finished_worker_does_not_count_while_another_has_failed_or_is_not_heard_of() -> None:
    done, own = Ending(0, ""), _other(0, rank=0)
    assert isinstance(concluded(Finish(0), done, own, [_other(75, "killed", returncode=-9)], ()), Requeue)
    assert concluded(Finish(0), done, own, [], (3,)) == Requeue(
        "worker 3 has not reported its end, after this one had finished"
    )


def test_failure_that_another_start_would_repeat_decides_over_all() -> None:
    failures = [_other(75, "killed", 0), _other(75, "worker-lost", 1), _other(1, "unrelated", 2)]
    assert first_cause(failures) == failures[2]
    assert first_cause(failures[:2]) == failures[0]
    assert first_cause([failures[1], _other(0, rank=2)]) is None


def test_outcome_says_whether_the_worker_failed_by_itself() -> None:
    assert outcome_of(0, "a", LOST, Restart("worker-lost")).is_consequence
    assert not outcome_of(0, "a", KILLED, Restart("killed")).is_consequence
    assert outcome_of(0, "a", KILLED, Restart("killed")).exit_code == 75
    assert outcome_of(0, "a", Ending(-10, "SIGUSR1"), Finish(138)).was_asked


def test_worker_left_by_one_that_had_finished_does_not_start_again() -> None:
    finished, left = _other(0, rank=0), outcome_of(1, "node1", LOST, Restart("worker-lost"))
    uneven = GiveUp(
        "worker 0 on node0 ended with exit code 0 while worker 1 on node1 still trained: the workers take different"
        " numbers of steps"
    )
    assert concluded(Restart("worker-lost"), LOST, left, [finished], []) == uneven
    assert concluded(Finish(0), Ending(0, ""), finished, [left], []) == uneven
    assert isinstance(concluded(Restart("worker-lost"), LOST, left, [finished], [2]), Requeue)
