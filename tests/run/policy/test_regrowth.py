"""Larger sizes are retried: never too soon, rarely in vain, and never beyond what memory allows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.protocol.micro_batch_sizes import Regrowth

seconds = st.floats(0, 1e6)
known = st.builds(
    Regrowth,
    size=st.integers(1, 10**6),
    room_bytes=st.none() | st.integers(1, 1 << 40),
    failed_at=seconds,
    cost=st.floats(0, 1000),
    others_hold=st.booleans(),
    setbacks=st.integers(0, 6),
)
rooms = st.none() | st.integers(0, 1 << 42)


@given(known=known, now=seconds, room=rooms)
def test_larger_size_is_never_tried_soon_after_a_failure(known, now, room):
    larger = known.larger(now, room)
    if now - known.failed_at < 60 * 2**known.setbacks:
        assert larger is None
    assert larger is None or larger >= known.size


@given(known=known, room=rooms)
def test_larger_size_is_tried_if_other_processes_held_memory_or_more_is_now_free(known, room):
    larger = known.larger(1e12, room)
    has_room = bool(known.room_bytes and room and room >= 1.25 * known.room_bytes)
    assert (larger is not None) == (known.others_hold or has_room)


@given(size=st.integers(1, 1000), room=st.integers(1000, 10**9), factor=st.floats(1.3, 50))
def test_larger_size_is_computed_from_the_memory_now_free(size, room, factor):
    larger = Regrowth(size, room, 0.0, 1.0).larger(60.0, int(room * factor))
    assert larger * room <= size * int(room * factor) < (larger + 1) * room


def test_slightly_more_free_memory_does_not_justify_another_shape():
    assert Regrowth(8, 1000, 0.0, 1.0).larger(1e9, 1249) is None
    assert Regrowth(8, 1000, 0.0, 1.0).larger(1e9, 1250) == 10


def test_trial_waits_a_hundred_times_as_long_as_a_failure_costs():
    known = Regrowth(8, None, 0.0, cost=10.0, others_hold=True)
    assert known.larger(999.0, None) is None
    assert known.larger(1000.0, None) == 16


def test_each_failed_trial_doubles_the_wait():
    known = Regrowth(8, None, 0.0, cost=10.0, others_hold=True)
    for setbacks in range(1, 5):
        known = known.after_failure(0.0, cost=5.0)
        assert (known.setbacks, known.cost) == (setbacks, 10.0)
        assert known.larger(1000.0 * 2**setbacks - 1, None) is None
        assert known.larger(1000.0 * 2**setbacks, None) == 16


@settings(deadline=None, max_examples=30)
@given(cost=st.floats(1, 1000), days=st.integers(1, 30))
def test_failing_trials_take_at_most_one_percent_of_the_time(cost, days):
    known, now, lost = Regrowth(8, None, 0.0, cost, others_hold=True), 0.0, 0.0
    while now < days * 86400:
        now += 30
        if known.larger(now, None) is not None:
            now, lost = now + cost, lost + cost
            known = known.after_failure(now, cost)
    assert lost <= 0.01 * now
