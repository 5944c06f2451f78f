"""Checkpoints are written at once without copies, or by a thread, which must not see what the script does next."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import numpy as np
import pytest

from oomph.checkpoint.container import Position
from oomph.checkpoint.interval import CheckpointInterval
from oomph.resume.state.training_state import Array
from oomph.resume.training import step_checkpoints
from oomph.resume.training.step_checkpoints import StateSnapshot, StepCheckpoints

MB = 1 << 20


class Checkpoints(StepCheckpoints):
    """Checkpoints of no training in particular."""

    def _save_step(self, store, at, started):
        raise NotImplementedError

    def _path_of(self, name):
        return name

    def _note_saved(self, saved, snapshot):
        pass


class Writer:
    """Keeps the arrays that a draft is told to write."""

    def __init__(self):
        self.written = {}

    def add(self, name, dtype, shape, data):
        self.written[name] = np.frombuffer(data, dtype).reshape(shape).copy()


@pytest.fixture
def begun():
    """The writes that have begun in the background."""
    return []


@pytest.fixture
def checkpoints(begun):
    fits = SimpleNamespace(
        steps=0, typical_stall=0.0, end_state_seconds=0.0, measured=0, background=SimpleNamespace(start=begun.append),
        common_borders=lambda strategy: None,
    )  # fmt: skip
    return Checkpoints(SimpleNamespace(fits=fits, strategy=None))


@pytest.mark.parametrize(("free", "by_a_thread"), [(10_000 * MB, True), (20 * MB, False), (None, True)])
def test_a_thread_writes_what_was_there_and_a_copy_takes_at_most_a_quarter_of_the_free_memory(
    checkpoints, begun, monkeypatch, free, by_a_thread
):
    monkeypatch.setattr(step_checkpoints, "available_bytes", lambda: free)
    kept, writer = np.zeros(6 * MB, np.uint8), Writer()
    draft = SimpleNamespace(complete=lambda meta, write: write(writer))
    own = [Array("object/0", "uint8", kept, is_shared=True)]
    checkpoints._complete(draft, ({}, own), [], frozenset(), lambda: StateSnapshot(Position(0, 0, 0, 0), 0.01, None))
    assert (begun != [], writer.written == {}) == (by_a_thread, by_a_thread)
    kept[:] = 1
    for write in begun:
        write()
    assert writer.written["object/0"].sum() == 0


class Borders:
    """Borders at which the test decides what happens."""

    def __init__(self, due=(), stop=0):
        self.due, self.signum, self.arrived, self.common, self.is_due = due, stop, [], 0, False
        self.missing = None

    def arrive(self, steps, at_once, is_due, asked):
        self.arrived.append((steps, at_once, is_due(at_once, 0.0), asked))
        self.is_due = steps in self.due

    def stop(self, steps):
        return self.signum

    def saved(self, steps):
        raise AssertionError("nothing is saved")

    def resumed(self, steps):
        self.common = steps


def of_a_worker(borders, steps, asked="", at_once=1):
    fits = SimpleNamespace(
        steps=steps, saved=0, typical_stall=0.0, end_state_seconds=0.0, measured=0, saving_seconds=0.0,
        interval=CheckpointInterval(steps=10), seconds_between_faults=lambda: 3600.0, trained_seconds=lambda: 9.0,
        common_borders=lambda strategy: borders, preemption=SimpleNamespace(asked=asked),
        own_session=lambda: SimpleNamespace(is_owner_now=lambda: True), store=lambda: SimpleNamespace(common=None),
    )  # fmt: skip
    checkpoints = Checkpoints(SimpleNamespace(fits=fits, strategy=None, steps_at_once=at_once))
    checkpoints._saved_at_step = 0
    return checkpoints


def test_worker_saves_where_all_do_and_says_where_it_would():
    borders = Borders(due={7})
    assert of_a_worker(borders, 7)._is_due()
    assert not of_a_worker(borders, 8, at_once=2)._is_due()
    assert not of_a_worker(borders, 11)._is_due()  # its own interval is over, but nobody has decided that
    assert borders.arrived == [(7, 1, False, 0), (8, 2, True, 0), (11, 1, True, 0)]


def test_process_without_other_workers_saves_by_its_own_interval():
    assert [of_a_worker(None, steps)._is_due() for steps in (9, 10)] == [False, True]


def test_worker_stops_with_the_others_even_if_only_they_were_asked():
    checkpoints = of_a_worker(Borders(stop=signal.SIGTERM), 7)
    assert checkpoints.is_to_stop()
    assert checkpoints._fits.preemption.asked == "SIGTERM"


def test_first_worker_names_the_one_that_does_not_save_and_says_what_a_fault_would_cost():
    borders, said = Borders(), []
    borders.missing = 3
    for common in (0, 40):
        borders.common = common
        checkpoints = of_a_worker(borders, 7)
        checkpoints._fits.warn_once = said.append
        checkpoints._is_due()
    assert said == [
        "worker 3 has not saved with the others for 60 s: after a fault, all start from the beginning",
        "worker 3 has not saved with the others for 60 s: after a fault, all start from the checkpoint of step 40",
    ]


def test_worker_that_is_asked_to_stop_waits_for_the_common_border():
    borders = Borders()
    checkpoints = of_a_worker(borders, 7, asked="SIGTERM")
    checkpoints._is_due()
    assert not checkpoints.is_to_stop()
    assert borders.arrived[0][3] == signal.SIGTERM
    assert of_a_worker(None, 7, asked="SIGTERM").is_to_stop()


def test_store_of_a_worker_keeps_what_all_have():
    borders = Borders()
    checkpoints = of_a_worker(borders, 7)
    checkpoints.count_from(5)
    assert checkpoints._store().common == 5
    assert of_a_worker(None, 7)._store().common is None
