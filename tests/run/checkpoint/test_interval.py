"""When a checkpoint is due."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.checkpoint.interval import (
    ASSUMED_SECONDS,
    EARLY_SECONDS,
    SHARE,
    SHORTEST_SECONDS,
    WRITING_SHARE,
    YOUNG_SECONDS,
    CheckpointInterval,
    Cost,
    optimal_seconds,
    seconds_between_faults,
    typical,
)


@pytest.mark.parametrize(("steps", "due"), [(0, False), (1, False), (9, False), (10, True), (11, True)])
def test_interval_in_steps_depends_only_on_steps(steps, due):
    assert CheckpointInterval(steps=10).due(steps, seconds=1e9, cost=Cost()) is due
    assert CheckpointInterval(steps=10).due(steps, seconds=0, cost=Cost(1e9)) is due


@pytest.mark.parametrize(("seconds", "due"), [(29.9, False), (30, True), (1e9, True)])
def test_interval_in_seconds_ignores_cost(seconds, due):
    assert CheckpointInterval(seconds=30).due(1, seconds, cost=Cost(1000)) is due


@pytest.mark.parametrize("rule", [CheckpointInterval(), CheckpointInterval(steps=1), CheckpointInterval(seconds=0.1)])
def test_checkpoint_is_not_due_without_a_new_step(rule):
    assert not rule.due(0, seconds=1e9, cost=Cost())


def test_first_checkpoint_of_the_default_interval_is_due_after_a_few_seconds():
    assert not CheckpointInterval().due(1000, SHORTEST_SECONDS - 0.1, Cost())
    assert CheckpointInterval().due(1, SHORTEST_SECONDS, Cost())


@given(stall=st.floats(0, 1e5), write=st.floats(0, 1e5), between_faults=st.floats(1, 1e7))
def test_default_interval_keeps_checkpoints_within_their_time_share(stall, write, between_faults):
    between = CheckpointInterval().seconds_between(Cost(stall, write, between_faults))
    assert between >= SHORTEST_SECONDS
    assert stall / between <= SHARE * (1 + 1e-9)
    assert write / between <= WRITING_SHARE * (1 + 1e-9)


def lost(between: float, cost: float, between_faults: float) -> float:
    """Return the time that a second of useful work takes, from Daly 2006: random faults, instant restarts."""
    return between_faults * (math.exp((between + cost) / between_faults) - 1) / between


@given(cost=st.floats(0.01, 100), ratio=st.floats(10, 1e5))
def test_no_other_interval_loses_significantly_less_work(cost, ratio):
    between_faults = cost * ratio
    best = optimal_seconds(cost, between_faults)
    for other in (best * 0.5, best * 0.9, best * 1.1, best * 2):
        assert lost(best, cost, between_faults) <= lost(other, cost, between_faults) * (1 + 1e-3)


def test_optimal_interval_follows_young_when_cheap_and_daly_when_costly():
    assert optimal_seconds(0.001, 1e6) == pytest.approx(math.sqrt(2 * 0.001 * 1e6), rel=1e-3)
    assert optimal_seconds(20, 10) == 10


def test_frequent_faults_shorten_the_checkpoint_interval():
    assert seconds_between_faults(0, 0) == ASSUMED_SECONDS
    assert seconds_between_faults(5, 600) == (ASSUMED_SECONDS + 600) / 6
    calm = CheckpointInterval().seconds_between(Cost(0.05, 0, seconds_between_faults(0, 36_000)))
    rough = CheckpointInterval().seconds_between(Cost(0.05, 0, seconds_between_faults(30, 3_600)))
    assert rough < calm / 5


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (CheckpointInterval(steps=100), "every 100 steps"),
        (CheckpointInterval(seconds=300), "every 300 s"),
        (CheckpointInterval(), "every 84 s, at most 2% of the time"),
    ],
)
def test_interval_rule_is_described_as_text(rule, words):
    assert rule.describe(Cost(1)) == words


def test_short_run_is_not_promised_a_share_of_time():
    after_the_first = Cost(1.7, trained_seconds=6.7, spent_seconds=1.7, is_rough=True)
    assert CheckpointInterval().describe(after_the_first) == "in 25 s, taking at most 2% of the time in the long run"


@pytest.mark.parametrize(
    ("interval", "seconds", "spent", "due"),
    [
        (CheckpointInterval(), 10, 0.0, True),
        (CheckpointInterval(), 10, 0.19, False),
        (CheckpointInterval(), 0.5, 0.0, False),
        (CheckpointInterval(steps=5), 0.5, 9.0, True),
        (CheckpointInterval(seconds=60), 0.5, 9.0, True),
    ],
)
def test_end_states_are_kept_within_their_share_of_the_time(interval, seconds, spent, due):
    assert interval.end_state_is_due(seconds, spent, expected=0.02) is due


def simulated(duration: float, first: float, later: float, step: float = 0.1) -> tuple[list[float], float]:
    """Return the times at which a run's checkpoints are complete, and how many seconds each took.

    Args:
        duration: the duration of the run, in seconds of a simulated clock.
        first: how long the first checkpoint stalls the training.
        later: how long each later one does.
    """
    now = saved_at = 0.0
    stalls: list[float] = []
    moments: list[float] = []
    while now < duration:
        now += step
        cost = Cost(
            typical(stalls), between_faults=seconds_between_faults(0, now), trained_seconds=saved_at,
            spent_seconds=sum(stalls), is_rough=len(stalls) <= 1,
        )  # fmt: skip
        if CheckpointInterval().due(1, now - saved_at, cost):
            stalls.append(later if stalls else first)
            now = saved_at = now + stalls[-1]
            moments.append(now)
    return moments, sum(stalls)


def mean_loss(moments: list[float], duration: float) -> float:
    """Return the seconds of training that a kill at a random moment loses."""
    return sum((after - before) ** 2 / 2 for before, after in pairwise([0.0, *moments, duration])) / duration


@pytest.mark.parametrize("duration", [30.0, 120.0, 3600.0])
@pytest.mark.parametrize(("first", "later"), [(0.21, 0.05), (0.21, 0.21), (0.3, 0.3), (0.02, 0.02), (0.5, 0.2)])
def test_checkpoints_stay_within_their_share_in_runs_of_any_length(duration, first, later):
    moments, spent = simulated(duration, first, later)
    assert moments
    assert spent <= SHARE * duration


@pytest.mark.parametrize(("duration", "most"), [(30.0, 5.0), (120.0, 10.0), (3600.0, 12.0)])
def test_random_kill_loses_only_seconds_despite_a_slow_first_checkpoint(duration, most):
    moments, _ = simulated(duration, first=0.21, later=0.05)
    assert mean_loss(moments, duration) <= most


def test_second_checkpoint_is_early_only_if_the_time_share_allows_it():
    assert CheckpointInterval().seconds_between(Cost(0.21, trained_seconds=5, spent_seconds=0.21, is_rough=True)) == 5
    assert (
        CheckpointInterval().seconds_between(Cost(1.0, trained_seconds=5, spent_seconds=1.0, is_rough=True))
        == EARLY_SECONDS
    )


@pytest.mark.parametrize("first", [0.7, 1.7, 2.5])
def test_slow_first_checkpoint_does_not_delay_the_second_early_in_a_run(first):
    """Recovering the time that the first took beyond its share used to delay the second by 85 s or more."""
    moments, spent = simulated(3600.0, first, later=0.3)
    assert moments[0] <= SHORTEST_SECONDS + first + 0.2
    assert moments[1] <= YOUNG_SECONDS + first + 0.5
    assert all(after - before <= max(before, 66) + 0.5 for before, after in pairwise(moments))
    assert spent <= SHARE * 3600.0


@pytest.mark.parametrize("end_state", [0.7, 1.9])
def test_saving_an_end_state_does_not_delay_the_next_fits_first_checkpoint(end_state):
    cost = Cost(end_state, trained_seconds=12.0, spent_seconds=end_state, is_rough=True)
    assert CheckpointInterval().seconds_between(cost) <= EARLY_SECONDS


def test_next_checkpoint_waits_ten_times_as_long_as_the_last_one_took():
    assert (
        CheckpointInterval().seconds_between(Cost(20.0, trained_seconds=25, spent_seconds=20.0, is_rough=True)) == 200
    )


@given(st.lists(st.sampled_from([0.05, 0.3, 3.0, 30.0]), min_size=1))
def test_long_run_stays_within_its_share_despite_slow_checkpoints(stalls):
    """Even if most checkpoints are fast and some slow, so that the typical cost says little."""
    now = saved_at = spent = 0.0
    seen: list[float] = []
    while now < 400_000:
        cost = Cost(
            typical(seen), trained_seconds=saved_at, spent_seconds=spent,
            between_faults=seconds_between_faults(0, now), is_rough=len(seen) <= 1,
        )  # fmt: skip
        seen.append(stalls[len(seen) % len(stalls)])
        now += CheckpointInterval().seconds_between(cost) + seen[-1]
        saved_at, spent = now, spent + seen[-1]
        seen = seen[-200:]
    assert spent <= SHARE * now + max(stalls)


def test_typical_cost_is_not_distorted_by_one_slow_checkpoint():
    assert typical([]) == 0.0
    assert typical([0.2]) == 0.2
    assert typical([0.2, 0.05]) == 0.05
    assert typical([0.2, 0.05, 3.0, 0.05]) == 0.05
