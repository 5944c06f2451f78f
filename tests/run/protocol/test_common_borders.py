"""Workers agree on the steps at which they save or stop: without waiting, and without ever disagreeing."""

from __future__ import annotations

import signal
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.protocol.borders import (
    BORDERS,
    PATIENCE_SECONDS,
    BorderDecision,
    BorderFile,
    CommonBorders,
    Note,
    decided,
)


class Gang:
    """Workers that train together: none ends a step before all have reached it."""

    def __init__(self, folder, workers, saving=None, attempt=1):
        self.now = 0.0
        files = [BorderFile(folder, attempt, rank, workers) for rank in range(workers)]
        self.views = [CommonBorders(file, rank, lambda: self.now) for rank, file in enumerate(files)]
        self.saved: list[list[int]] = [[] for _ in self.views]
        self.stopped: list[list[tuple[int, int]]] = [[] for _ in self.views]
        self.asked = [0] * workers
        self.saving = saving or (lambda rank, steps: True)

    def arrive(self, rank, steps, is_due):
        view = self.views[rank]
        view.arrive(steps, steps + 1, lambda: is_due, self.asked[rank])
        if view.is_due(steps):
            self.saved[rank].append(steps)
            if self.saving(rank, steps):
                view.saved(steps)
        signum = view.stop(steps)
        if signum:
            self.stopped[rank].append((steps, signum))

    def train(self, begin, end, due=(), order=None):
        for steps in range(begin, end):
            for rank in order(steps) if order else range(len(self.views)):
                self.arrive(rank, steps, steps in due)
            self.now += 1


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
    assert decided(before, [Note(5), Note(2)], 5, 6, is_due=True) == before


def test_checkpoint_that_not_all_have_is_no_common_one_and_delays_the_next():
    before = BorderDecision(border=5, common=2)
    assert decided(before, [Note(5), Note(2)], 6, 7, is_due=True) == before
    assert decided(before, [Note(5), Note(5)], 6, 7, is_due=True) == BorderDecision(7, common=5)
    assert decided(before, [Note(5), Note(2)], 6, 7, is_due=True, is_patient=False) == BorderDecision(7, common=2)


def test_worker_that_cannot_save_delays_the_others_only_for_a_while(tmp_path):
    gang = Gang(tmp_path, 2, saving=lambda rank, steps: rank == 0)
    gang.train(0, int(3 * PATIENCE_SECONDS), due=range(1000))
    assert gang.saved[0] == gang.saved[1]
    assert 2 <= len(gang.saved[0]) <= 4
    assert [view.common for view in gang.views] == [0, 0]


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
    (stopped,) = {tuple(each) for each in gang.stopped}
    assert len(stopped) == 1
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


def test_record_that_is_being_written_is_not_read(tmp_path):
    file = BorderFile(tmp_path, 1, 0, 2)
    assert file.decision() is None
    file.write_decision(BorderDecision(300, 200, 15))
    assert file.decision() == BorderDecision(300, 200, 15)
    with open(tmp_path / BORDERS, "r+b") as written:
        written.seek(struct.calcsize("<q"))
        written.write(b"\x01")  # a part of another number
    assert file.decision() is None


def test_planted_link_is_not_written_to(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / BORDERS).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=BORDERS):
        BorderFile(tmp_path, 1, 0, 2)
    assert (tmp_path / "mine").read_text() == "precious"
