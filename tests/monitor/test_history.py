"""The readings of all of a run: few, and the floor of each while."""

from __future__ import annotations

from oomph.monitor.window import History


def test_history_keeps_the_lowest_value_of_every_twenty_seconds():
    history = History()
    for second in range(60):
        history.add(float(second), 100.0 + second % 7)
    assert [(time, value) for time, value in history.points] == [(0, 100), (21, 100), (42, 100)]


def test_history_of_three_days_keeps_at_most_1024_points_including_the_ends():
    history = History()
    for minute in range(3 * 1440):
        history.add(60.0 * minute, float(minute))
    places = [time for time, _ in history.points]
    assert 512 < len(places) <= 1024
    assert (places[0], places[-1]) == (0.0, 60.0 * (3 * 1440 - 1))
    assert places == sorted(places)


def test_history_keeps_recording_after_the_clock_is_set_back():
    history = History()
    for time in (1000.0, 10.0, 40.0):
        history.add(time, 1.0)
    assert len(history.points) == 3
