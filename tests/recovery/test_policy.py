from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.recovery.policy import (
    MOST_PER_FAULT,
    MOST_WITHOUT_CHECKPOINT,
    Action,
    Ending,
    Finish,
    GiveUp,
    Ledger,
    Restart,
    decide,
    record,
)


def play(endings: Iterable[Ending], ledger: Ledger | None = None) -> list[Action]:
    """The actions that follow one another, until one ends the run."""
    ledger, actions = ledger or Ledger(), []
    for ending in endings:
        actions.append(decide(ending, ledger))
        ledger = record(ending, actions[-1], ledger)
        if not isinstance(actions[-1], Restart):
            break
    return actions


@pytest.mark.parametrize("code", [0, 1, 3, 93, 255])
def test_an_exit_code_of_the_script_is_its_own(code: int) -> None:
    assert decide(Ending(code, "unrelated"), Ledger()) == Finish(code)


@pytest.mark.parametrize("signum", [1, 2, 13, 15])
def test_a_signal_that_somebody_meant_ends_the_run_with_the_code_of_a_shell(signum: int) -> None:
    assert decide(Ending(-signum, "x"), Ledger()) == Finish(128 + signum)


@pytest.mark.parametrize("signum", [4, 6, 7, 8, 9, 11])
def test_a_crash_restarts(signum: int) -> None:
    assert decide(Ending(-signum, "crash", steps=5), Ledger()) == Restart("crash")


def test_the_same_fault_without_progress_is_given_up_after_the_budget() -> None:
    actions = play([Ending(-9, "killed", steps=12)] * 10)
    assert [type(action) for action in actions] == [Restart] * MOST_PER_FAULT + [GiveUp]
    assert actions[-1] == GiveUp(93, "killed 4 times without any progress in between")


def test_each_fault_has_a_budget_of_its_own() -> None:
    endings = [Ending(-9, "killed", steps=12), Ending(-11, "segfault", steps=12)] * MOST_PER_FAULT
    assert all(isinstance(action, Restart) for action in play(endings))


def test_progress_beyond_the_best_failure_refills_the_budget() -> None:
    endings = [Ending(-9, "killed", steps=steps, saved=steps) for steps in range(10, 200, 10)]
    assert all(isinstance(action, Restart) for action in play(endings))


def test_steps_that_are_only_repeated_refill_nothing() -> None:
    actions = play(Ending(-9, "killed", steps=steps, saved=5) for steps in (12, 11, 12, 10, 12, 12))
    assert isinstance(actions[-1], GiveUp)
    assert len(actions) == MOST_PER_FAULT + 1


def test_progress_that_no_checkpoint_keeps_is_given_up_in_the_end() -> None:
    actions = play(Ending(-9, "killed", steps=steps, saved=0) for steps in range(1, 100))
    assert isinstance(actions[-1], GiveUp)
    assert len(actions) == MOST_WITHOUT_CHECKPOINT + 1


def test_a_script_that_never_starts_is_tried_once_more() -> None:
    actions = play([Ending(-11, "segfault", started=False)] * 5)
    assert [type(action) for action in actions] == [Restart, GiveUp]
    assert actions[-1] == GiveUp(93, "segfault before any training began, twice")


def test_a_start_in_between_makes_never_starting_new_again() -> None:
    endings = [Ending(-9, "a", started=False), Ending(-9, "b", steps=5), Ending(-9, "a", started=False)]
    assert all(isinstance(action, Restart) for action in play(endings))


@pytest.mark.parametrize("returncode", [0, 1, 86, -6])
def test_a_restart_that_the_guard_asked_for_comes_whatever_the_exit_code(returncode: int) -> None:
    ending = Ending(returncode, "device-oom", steps=5, restart_requested="out of memory in the update")
    assert decide(ending, Ledger()) == Restart("out of memory in the update")


def test_a_guard_that_gave_up_ends_the_run_with_93() -> None:
    assert decide(Ending(1, "device-oom", gave_up="one sample does not fit"), Ledger()) == GiveUp(
        93, "one sample does not fit"
    )


@pytest.mark.parametrize("returncode", [-9, -15, -6, 0, 1])
def test_what_was_stopped_on_purpose_is_never_restarted(returncode: int) -> None:
    ending = Ending(returncode, "killed", stopped=True, restart_requested="x", gave_up="x")
    assert isinstance(decide(ending, Ledger()), Finish)


_ENDINGS = st.builds(
    Ending,
    returncode=st.sampled_from([-9, -11, -6, 1, 0]),
    fault=st.sampled_from(["a", "b", "c"]),
    started=st.booleans(),
    steps=st.integers(0, 50),
    saved=st.integers(0, 50),
    restart_requested=st.sampled_from(["", "reason"]),
)


@given(st.lists(_ENDINGS, min_size=1, max_size=400))
def test_no_run_goes_on_for_ever(endings: list[Ending]) -> None:
    """The last ending, repeated, comes to an end; and the pasts that led there never cost more than progress pays."""
    actions = play([*endings, *[endings[-1]] * 50])
    most = (len({e.steps for e in endings}) + 1) * MOST_PER_FAULT * 3 + 1
    assert not isinstance(actions[-1], Restart)
    assert len(actions) <= most
