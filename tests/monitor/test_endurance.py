"""The share of the training and of the memory that growth has taken."""

from __future__ import annotations

from oomph.monitor.detectors.leaks import share_of_room, takes_most_of_the_plan


def test_growth_over_most_of_the_remaining_plan_counts_as_lasting():
    assert takes_most_of_the_plan(0, 90, 100)
    assert not takes_most_of_the_plan(0, 89, 100)
    assert takes_most_of_the_plan(50, 95, 100)
    assert not takes_most_of_the_plan(50, 94, 100)


def test_growth_in_only_the_last_epochs_does_not_count_as_lasting():
    assert not takes_most_of_the_plan(90, 100, 100)


def test_growth_is_expressed_as_a_share_of_the_initially_free_memory():
    assert share_of_room(30.0, 10.0) == 0.75
    assert share_of_room(30.0, 0.0) == 1.0
    assert share_of_room(30.0, None) == 0.0
    assert share_of_room(0.0, 0.0) == 0.0
