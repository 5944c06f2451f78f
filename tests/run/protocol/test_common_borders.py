"""Workers agree on the steps at which they save or stop: without waiting, and without ever disagreeing."""

from __future__ import annotations

import random
import signal
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.protocol.border_boards import MappedBorderBoard
from oomph.protocol.borders import PATIENCE_SECONDS, Ahead, BorderDecision, CommonBorders, Note, decided

ONE = Ahead(1, 1)
SECONDS = 0.1
"""The time that a step takes."""


class SeenLater:
    """A board of one worker in a folder whose changes are seen elsewhere after a while."""

    lead_seconds = 4.0

    def __init__(self, records, gang, rank):
        self.records, self.gang, self.rank = records, gang, rank

    def announce(self, decision):
        self.records["decision"].append((self.gang.now, decision))

    def write_note(self, note):
        self.records[self.rank].append((self.gang.now, note))

    def decision(self):
        return self._seen("decision", self.gang.delays[self.rank])

    def notes(self):
        return [
            self._seen(rank, self.gang.delays[rank] if rank else 0.0) or Note() for rank in range(len(self.gang.delays))
        ]

    def _seen(self, name, delay):
        return next((value for at, value in reversed(self.records[name]) if at + delay <= self.gang.now), None)


class Gang:
    """Workers that train together: none ends a step before all have reached it.

    With `delays`, they are on several machines, each of which sees changes after so many seconds.
    """

    def __init__(self, folder, workers, saving=None, attempt=1, delays=None, at_once=1):
        self.now, self.seconds, self.at_once, self.delays = 0.0, 1.0 if delays is None else SECONDS, at_once, delays
        records = defaultdict(list)
        boards = [
            MappedBorderBoard(folder, attempt, rank, workers) if delays is None else SeenLater(records, self, rank)
            for rank in range(workers)
        ]
        self.views = [CommonBorders(board, rank, lambda: self.now) for rank, board in enumerate(boards)]
        self.saved: list[list[int]] = [[] for _ in self.views]
        self.stopped: list[list[tuple[int, int]]] = [[] for _ in self.views]
        self.asked = [0] * workers
        self.missing: set[int | None] = set()
        self.saving = saving or (lambda rank, steps: True)

    def arrive(self, rank, steps, is_due):
        view = self.views[rank]
        view.arrive(steps, self.at_once, lambda ahead, seconds: is_due, self.asked[rank])
        self.missing |= {view.missing} - {None}
        if view.is_due:
            self.saved[rank].append(steps)
            if self.saving(rank, steps):
                view.saved(steps)
        signum = view.stop(steps)
        if signum:
            self.stopped[rank].append((steps, signum))

    def train(self, begin, end, due=(), order=None):
        for steps in range(begin, end, self.at_once):
            for rank in order(steps) if order else range(len(self.views)):
                self.arrive(rank, steps, steps in due)
            self.now += self.seconds * self.at_once


@given(st.sets(st.integers(0, 30)), st.lists(st.permutations(range(3)), min_size=31, max_size=31))
def test_all_workers_save_at_the_same_steps_in_whatever_order_they_arrive(tmp_path_factory, due, orders):
    gang = Gang(tmp_path_factory.mktemp("gang"), 3)
    gang.train(0, 31, due, lambda steps: orders[steps])
    assert gang.saved[0] == gang.saved[1] == gang.saved[2]
    assert not due - {30} or gang.saved[0]


def test_worker_that_is_a_step_ahead_saves_where_the_others_do(tmp_path):
    """The first worker has decided before it takes part in the step; then the others can only have begun that step."""
    gang = Gang(tmp_path, 2)
    gang.arrive(1, 0, False)
    gang.arrive(0, 0, True)  # the other one already waits in step 0
    gang.arrive(1, 1, False)
    gang.arrive(0, 1, True)
    assert gang.saved == [[1], [1]]


def test_decision_stays_until_all_have_passed_the_border():
    before = BorderDecision(border=5, common=2)
    assert decided(before, [Note(2), Note(2)], 4, ONE, is_due=True) == before


def test_checkpoint_that_not_all_have_is_no_common_one_and_delays_the_next():
    before = BorderDecision(border=5, common=2)
    assert decided(before, [Note(5), Note(2)], 6, ONE, is_due=True) == before
    assert decided(before, [Note(9), Note(7)], 10, ONE, is_due=True) == before
    assert decided(before, [Note(5), Note(5)], 6, ONE, is_due=True) == BorderDecision(7, common=5)
    assert decided(before, [Note(5), Note(2)], 6, ONE, is_due=True, is_patient=False) == BorderDecision(7, common=2)


def test_worker_that_cannot_save_delays_the_others_only_for_a_while(tmp_path):
    gang = Gang(tmp_path, 2, saving=lambda rank, steps: rank == 0)
    gang.train(0, int(3 * PATIENCE_SECONDS), due=range(1000))
    assert gang.saved[0] == gang.saved[1]
    assert 2 <= len(gang.saved[0]) <= 4
    assert [view.common for view in gang.views] == [0, 0]
    assert gang.missing == {1}


def test_worker_is_not_named_where_none_can_save(tmp_path):
    gang = Gang(tmp_path, 2, saving=lambda rank, steps: False)
    gang.train(0, int(3 * PATIENCE_SECONDS), due=range(1000))
    assert gang.missing == set()


def test_common_checkpoint_is_the_one_that_all_have_resumed_from_until_there_is_a_newer_one(tmp_path):
    gang = Gang(tmp_path, 2)
    for view in gang.views:
        view.resumed(10)
    gang.train(10, 13, due={11})
    assert [view.common for view in gang.views] == [10, 10]
    gang.train(13, 16, due={13})
    assert [view.common for view in gang.views] == [12, 12]


@pytest.mark.parametrize("rank", [0, 1])
def test_signal_to_one_worker_stops_all_at_the_same_step(tmp_path, rank):
    gang = Gang(tmp_path, 3)
    gang.train(0, 4)
    gang.asked[rank] = signal.SIGTERM
    gang.train(4, 7)  # it is not heeded again before the next step
    (stopped,) = {tuple(each[:1]) for each in gang.stopped}
    assert stopped[0][1] == signal.SIGTERM
    assert stopped[0][0] in (5, 6)


def test_training_after_a_ctrl_c_that_the_script_has_caught_is_not_stopped_again(tmp_path):
    gang = Gang(tmp_path, 2)
    gang.asked = [signal.SIGINT] * 2
    gang.train(0, 2)
    gang.asked = [0, 0]  # the script goes on with another fit, whose first border has the same number of steps
    gang.arrive(0, 1, False)
    gang.arrive(1, 1, False)
    gang.train(2, 8, due={4})
    assert gang.stopped == [[(1, signal.SIGINT)]] * 2
    assert gang.saved[0][-1] == gang.saved[1][-1] == 5


def test_decisions_of_an_earlier_attempt_do_not_count(tmp_path):
    Gang(tmp_path, 2).train(0, 9, due={7})
    again = Gang(tmp_path, 2, attempt=2)
    again.arrive(1, 8, False)
    assert again.saved[1] == []
    again.train(8, 12, due={9})
    assert again.saved == [[10], [10]]


def test_several_steps_at_once_end_at_no_announced_border_and_all_save_at_the_next(tmp_path):
    gang = Gang(tmp_path, 2, at_once=4)
    gang.arrive(0, 0, True)
    for steps in (3, 7, 10):  # the epochs have three and seven steps
        gang.arrive(0, steps, False)
        gang.arrive(1, steps, False)
    assert gang.saved == [[7], [7]]


# -- several machines -----------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 2.5), min_size=3, max_size=3),
    st.integers(1, 4),
    st.integers(0, 1000),
)
def test_machines_that_see_changes_late_save_at_the_same_steps(delays, at_once, seed):
    chance = random.Random(seed)
    gang = Gang(None, 3, delays=delays, at_once=at_once)
    gang.train(0, 400, range(400), lambda steps: chance.sample(range(3), 3))
    assert gang.saved[0] == gang.saved[1] == gang.saved[2]
    assert len(gang.saved[0]) >= 3
    assert {view.common for view in gang.views[1:]} <= {0, *gang.saved[0]}


def test_border_lies_no_farther_ahead_than_the_others_need():
    gang = Gang(None, 2, delays=[0, 0.5])
    gang.train(0, 100, due=range(10, 400))
    assert gang.saved[0][0] - 10 == pytest.approx(SeenLater.lead_seconds / SECONDS, abs=1)


def test_checkpoint_that_one_worker_sees_too_late_does_not_count_and_the_next_is_announced_farther_ahead():
    gang = Gang(None, 2, delays=[0, 6.0])
    gang.train(0, 600, due=range(10, 600))
    first, second, *_ = gang.saved[0]
    assert first not in gang.saved[1]
    assert gang.saved[1] == gang.saved[0][1:]
    assert second - first >= 8.0 / SECONDS  # the late worker's note takes a while, too
    assert {view.common for view in gang.views} <= set(gang.saved[1])
    assert gang.missing == set()


def test_worker_that_never_sees_anything_leaves_what_all_have_in_place():
    gang = Gang(None, 2, delays=[0, 1e9])
    for view in gang.views:
        view.resumed(7)
    gang.train(7, 2000, due=range(10, 2000))
    assert gang.saved[1] == []
    assert gang.missing == {1}
    assert 2 <= len(gang.saved[0]) <= 1 + 2000 * SECONDS / PATIENCE_SECONDS
    assert [view.common for view in gang.views] == [7, 7]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_signal_on_one_machine_stops_all_at_the_same_step_within_the_time_that_schedulers_leave(rank):
    gang = Gang(None, 3, delays=[0, 0.6, 1.2])
    gang.train(0, 100, due=range(20, 100))
    gang.asked[rank] = signal.SIGUSR1
    gang.train(100, 300)
    (stopped,) = {tuple(each[:1]) for each in gang.stopped}
    assert stopped[0][1] == signal.SIGUSR1
    assert (stopped[0][0] - 100) * SECONDS < 10.0  # Ctrl-C waits for no longer


def test_stop_does_not_wait_for_a_checkpoint_that_was_announced():
    before = BorderDecision(border=500, common=2)
    after = decided(before, [Note(2), Note(2, asked=signal.SIGTERM)], 100, Ahead(40, 20), is_due=False)
    assert after == BorderDecision(500, 2, stop=120, signum=signal.SIGTERM)
    assert decided(after, [Note(2), Note(2, asked=signal.SIGTERM)], 101, Ahead(40, 20), is_due=False) == after


def test_note_from_before_a_stop_stops_nobody_again():
    stopped = BorderDecision(stop=120, signum=signal.SIGINT)
    stale, heeded = Note(asked=signal.SIGINT), Note(stopped=120)
    assert decided(stopped, [heeded, stale], 130, ONE, is_due=False) == stopped
    again = decided(stopped, [heeded, Note(asked=signal.SIGINT, stopped=120)], 130, ONE, is_due=False)
    assert again.stop == 131


def test_pause_for_validation_and_slow_first_steps_do_not_bring_the_border_closer():
    gang = Gang(None, 2, delays=[0, 2.0])
    for steps in range(3):
        gang.arrive(0, steps, False)
        gang.arrive(1, steps, False)
        gang.now += 30.0  # traced
    gang.train(3, 60, due={5})
    gang.now += 60.0  # validated
    gang.train(60, 200, due={64})
    assert gang.saved[0] == gang.saved[1]
    assert len(gang.saved[0]) == 2
