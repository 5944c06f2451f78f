"""When a checkpoint is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.recovery.interval import SHARE, SHORTEST_SECONDS, Interval


@pytest.mark.parametrize(("steps", "due"), [(0, False), (1, False), (9, False), (10, True), (11, True)])
def test_a_number_of_steps_is_kept_whatever_the_time(steps, due):
    assert Interval(steps=10).due(steps, seconds=1e9, last_cost_seconds=0) is due
    assert Interval(steps=10).due(steps, seconds=0, last_cost_seconds=1e9) is due


@pytest.mark.parametrize(("seconds", "due"), [(29.9, False), (30, True), (1e9, True)])
def test_a_time_is_kept_whatever_it_costs(seconds, due):
    assert Interval(seconds=30).due(1, seconds, last_cost_seconds=1000) is due


@pytest.mark.parametrize("rule", [Interval(), Interval(steps=1), Interval(seconds=0.1)])
def test_without_a_step_since_the_last_one_there_is_nothing_to_save(rule):
    assert not rule.due(0, seconds=1e9, last_cost_seconds=0)


def test_without_a_wish_the_first_one_comes_after_a_few_seconds():
    assert not Interval().due(1000, SHORTEST_SECONDS - 0.1, 0)
    assert Interval().due(1, SHORTEST_SECONDS, 0)


@given(cost=st.floats(0, 1e5))
def test_without_a_wish_checkpoints_take_at_most_their_share_of_the_time(cost):
    between = Interval().seconds_between(cost)
    assert between >= SHORTEST_SECONDS
    assert cost / between <= SHARE * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Interval(steps=100), "every 100 steps"),
        (Interval(seconds=300), "every 300 s"),
        (Interval(), "every 50 s, at most 2% of the time"),
    ],
)
def test_the_rule_in_words(rule, words):
    assert rule.describe(last_cost_seconds=1) == words
