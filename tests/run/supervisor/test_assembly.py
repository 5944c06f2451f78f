"""What keeps workers from training as one is said, in one sentence that names the worker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oomph.journal.journal import Event
from oomph.protocol.progress import Phase
from oomph.run.supervisor.assembly import SLOW_SECONDS, Assembly, FirstTraining, unlike

SAME = FirstTraining("2.21.0", "3.15.1", "train.py:9", "8fe9", 4)


class Cluster:
    """A cluster whose workers listen or not, as the test says."""

    def __init__(self, *served):
        self.served = set(served)

    def is_served(self, rank):
        return rank in self.served


def worker(rank, phase=Phase.OWN_CODE, training=None, progress=None):
    guard = {"keras": training.keras, "tensorflow": training.tensorflow} if training else {}
    fit = {"site": training.site, "fingerprint": training.model, "epochs": training.epochs} if training else {}
    events = [Event.named("guard-installed", guard), Event.named("fit-started", fit)]
    record = SimpleNamespace(events=lambda: events, progress=lambda: progress)
    return SimpleNamespace(rank=rank, watch=SimpleNamespace(phase=phase), record=record)


def said(cluster, workers, seconds=60):
    """Return what is said while the workers stay as they are."""
    lines, now = [], [1000.0]
    assembly = Assembly(cluster, lines.append, clock=lambda: now[0])
    for _ in range(seconds):
        assembly.attend(workers)
        now[0] += 1
    return lines


def test_worker_that_is_slow_to_start_is_named_once():
    (line,) = said(Cluster(0, 2), [worker(rank) for rank in range(3)])
    assert line == "worker 1 has not started the strategy yet: the others have waited for 30 s and go on waiting"
    assert said(Cluster(0, 2), [worker(rank) for rank in range(3)], seconds=int(SLOW_SECONDS)) == []


def test_nothing_is_said_while_all_workers_are_still_starting():
    assert said(Cluster(), [worker(rank) for rank in range(3)]) == []


def test_several_slow_workers_are_named_together():
    (line,) = said(Cluster(1), [worker(rank) for rank in range(3)])
    assert line.startswith("workers 0, 2 have not started")


def test_script_without_a_strategy_is_told_so_once():
    (line,) = said(Cluster(), [worker(rank, Phase.STEP, SAME, progress=1) for rank in range(2)])
    assert line.startswith("worker 0 trains without a strategy for several workers")


def test_workers_that_train_the_same_are_told_nothing():
    assert said(Cluster(0, 1), [worker(rank, Phase.STEP, SAME, progress=1) for rank in range(2)]) == []


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (SAME._replace(tensorflow="2.17.1"), "has TensorFlow 2.17.1, worker 0 2.21.0"),
        (SAME._replace(keras="3.5.0"), "has Keras 3.5.0, worker 0 3.15.1"),
        (SAME._replace(site="train.py:12"), "trains at train.py:12, worker 0 at train.py:9"),
        (SAME._replace(model="0000"), "trains another model than worker 0, at train.py:9"),
        (SAME._replace(epochs=1), "trains 1 epoch, worker 0 4"),
    ],
)
def test_worker_that_trains_something_else_is_named_with_the_difference(other, difference):
    workers = [worker(rank, Phase.STEP, each, progress=1) for rank, each in enumerate((SAME, SAME, other))]
    (line,) = said(Cluster(0, 1, 2), workers)
    assert (
        line == f"worker 2 {difference}: all workers have to run the same script with the same versions and arguments"
    )


def test_workers_are_compared_once_all_of_them_train():
    workers = [worker(0, Phase.STEP, SAME, progress=1), worker(1, Phase.STEP, SAME._replace(epochs=1), progress=None)]
    assert said(Cluster(0, 1), workers) == []


def test_unguarded_worker_is_not_compared():
    assert unlike({0: SAME, 1: None}) == ""
    assert unlike({0: None, 1: SAME}) == ""


def test_hostile_name_of_a_file_is_shown_as_text():
    assert "\x1b" not in unlike({0: SAME, 1: SAME._replace(site="\x1b[31mtrain.py")})
