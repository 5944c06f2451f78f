"""Python generators moved to the positions of those in another process."""

from __future__ import annotations

import sys

import pytest

from oomph.objects import generators
from oomph.objects.kind import CannotGiveBackError
from oomph.objects.picture import Picture, changes_between
from oomph.objects.restoration import Restoration

LOSSES = (3.0, 2.0, 5.0, 1.5, 4.0)


def controller():
    """A coroutine that receives a loss and yields a learning rate."""
    rate, bad, best = 0.5, 0, float("inf")
    loss = yield rate
    while True:
        if loss < best:
            best, bad = loss, 0
            rate *= 1.1
        else:
            bad += 1
            rate *= 0.5**bad
        loss = yield rate


def counting(by):
    total = 0
    while True:
        total += by
        yield total


def closing_over():
    total = 0

    def add(number):
        nonlocal total
        total += number

    while True:
        number = yield total
        add(number)


def looping():
    for number in range(10):
        yield 2 * number


def taking_from(source):
    while True:
        got = yield next(source)
        source.append(got)


def advanced(make, sent):
    generator = make()
    for value in (None, *sent)[: len(sent)]:
        generator.send(value)
    return generator


def put(live, other):
    frame = other.gi_frame
    generators.put_at(live, frame.f_lasti, dict(frame.f_locals))


@pytest.mark.parametrize("steps", range(4))
def test_moved_coroutine_continues_like_the_original(steps):
    other, live = controller(), advanced(controller, [1.0] * steps)
    next(other)
    for loss in LOSSES[:3]:
        other.send(loss)
    assert generators.can_be_put_at(live, other.gi_frame.f_lasti)
    put(live, other)
    assert [live.send(loss) for loss in LOSSES] == [other.send(loss) for loss in LOSSES]


def test_fresh_generator_is_moved_without_running_its_first_lines():
    ran = []

    def beginning():
        ran.append(True)
        total = 10
        while True:
            total += 1
            yield total

    other = beginning()
    for _ in range(3):
        next(other)
    live = beginning()
    put(live, other)
    assert (ran, next(live), next(other)) == ([True], 14, 14)


def test_moving_a_generator_keeps_a_debuggers_trace_function():
    def trace(frame, event, argument):
        return None

    other = counting(2)
    next(other)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        put(counting(2), other)
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("make", [looping, lambda: taking_from([1])])
def test_frames_with_hidden_stack_values_cannot_be_moved(make):
    other = make()
    if other.gi_code is looping.__code__:
        next(other)
        assert not generators.can_be_put_at(make(), other.gi_frame.f_lasti)
    else:
        offsets = generators.yields_of(other.gi_code)
        assert not any(generators.can_be_put_at(other, offset) for offset in offsets), "next would be called once more"


def test_only_coroutines_are_recognised_as_receiving_values():
    assert generators.receives(controller())
    assert not generators.receives(counting(1))
    assert not generators.receives(looping())


def test_exhausted_or_running_generator_is_not_moved():
    ended = looping()
    list(ended)
    assert not generators.can_be_put_at(ended, 0)
    found = []

    def itself():
        while True:
            found.append(generators.can_be_put_at(running, 0))
            yield

    running = itself()
    next(running)
    assert found == [False]


# -- during training --------------------------------------------------------------------------------------------------


def given_back(make, forward, now=lambda made: None):
    """Return what a recreated generator yields, once it has the state of one that was advanced."""
    first = make()
    before = Picture.of([("callback", first)])
    forward(first)
    changes = changes_between(before, Picture.of([("callback", first)], before))
    second = make()
    now(second)
    restored = Restoration(Picture.of([("callback", second)]), changes)
    restored.apply()
    return first, second, [*map(str, restored.lost)]


def test_closure_coroutine_is_restored_with_its_state():
    def feed(made):
        next(made["rates"])
        for loss in LOSSES:
            made["rates"].send(loss)

    first, second, lost = given_back(lambda: {"rates": controller()}, feed)
    assert lost == []
    assert [first["rates"].send(2.5) for _ in range(3)] == [second["rates"].send(2.5) for _ in range(3)]


def test_a_closure_cell_shared_with_a_generators_inner_function_is_restored():
    def begun():
        made = {"sums": closing_over()}
        next(made["sums"])
        return made

    first, second, lost = given_back(begun, lambda made: made["sums"].send(4))
    assert lost == []
    assert (first["sums"].send(3), second["sums"].send(3)) == (7, 7)


def test_a_generator_looping_over_an_iterator_resumes_at_its_position():
    first, second, lost = given_back(
        lambda: {"numbers": looping()}, lambda made: [next(made["numbers"]) for _ in "abc"]
    )
    assert lost == []
    assert (next(first["numbers"]), next(second["numbers"])) == (6, 6)


def test_an_unmovable_coroutine_is_reported_as_lost_and_still_works():
    def fed():
        for number in range(10):
            got = yield number
            assert got != 0, "nobody sends this"

    def feed(made):
        next(made["fed"])
        made["fed"].send(1)
        made["fed"].send(1)

    _, second, lost = given_back(lambda: {"fed": fed()}, feed, now=lambda made: next(made["fed"]))
    assert len(lost) == 1
    assert "receives values through send()" in lost[0]
    assert second["fed"].send(5) == 1, "nobody has sent it anything"


def test_moving_to_an_unreachable_position_raises_our_own_error():
    other, live = controller(), controller()
    next(other)
    with pytest.raises(CannotGiveBackError):
        generators.put_at(live, other.gi_frame.f_lasti, {})  # without `rate`, the line cannot be run
