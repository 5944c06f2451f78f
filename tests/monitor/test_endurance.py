"""How much of the training and of the memory growth has taken."""

from __future__ import annotations

from oomph.monitor.detectors.leaks import share_of_room, takes_most_of_the_plan


def test_most_of_what_was_left_when_growth_began():
    assert takes_most_of_the_plan(0, 90, 100)
    assert not takes_most_of_the_plan(0, 89, 100)
    assert takes_most_of_the_plan(50, 95, 100)
    assert not takes_most_of_the_plan(50, 94, 100)


def test_the_last_epochs_alone_tell_nothing():
    assert not takes_most_of_the_plan(90, 100, 100)


def test_the_share_of_the_memory_that_was_free():
    assert share_of_room(30.0, 10.0) == 0.75
    assert share_of_room(30.0, 0.0) == 1.0
    assert share_of_room(30.0, None) == 0.0
    assert share_of_room(0.0, 0.0) == 0.0
