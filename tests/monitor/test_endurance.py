"""How much of the training and of the memory growth has taken."""

from __future__ import annotations

from oomph.monitor.detectors.leaks import share_of_room, takes_most_of_the_plan


def test_growth_counts_as_lasting_over_most_of_what_remained_when_it_began():
    assert takes_most_of_the_plan(0, 90, 100)
    assert not takes_most_of_the_plan(0, 89, 100)
    assert takes_most_of_the_plan(50, 95, 100)
    assert not takes_most_of_the_plan(50, 94, 100)


def test_growth_of_the_last_epochs_alone_does_not_count_as_lasting():
    assert not takes_most_of_the_plan(90, 100, 100)


def test_growth_is_measured_as_a_share_of_the_memory_that_was_free():
    assert share_of_room(30.0, 10.0) == 0.75
    assert share_of_room(30.0, 0.0) == 1.0
    assert share_of_room(30.0, None) == 0.0
    assert share_of_room(0.0, 0.0) == 0.0
