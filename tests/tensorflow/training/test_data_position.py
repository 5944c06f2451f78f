"""A resumed fit continues in the data after the epochs that an earlier attempt completed."""

from __future__ import annotations

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.protocol.reasons import because
from oomph.resume.training import data_position
from oomph.resume.training.data_position import DataPosition


def shuffled():
    return tf.data.Dataset.range(20).shuffle(20, seed=3, reshuffle_each_iteration=True)


def orders(dataset, count):
    return [[int(number) for number in dataset] for _ in range(count)]


@pytest.mark.parametrize("counts", [(1,), (2,), (3,), (1, 2)])
def test_iterator_after_skipped_ones_has_the_order_of_an_uninterrupted_run(counts):
    expected, dataset = orders(shuffled(), 5), shuffled()
    assert len({tuple(order) for order in expected}) == 5
    said = []
    position = DataPosition(types.SimpleNamespace(say=said.append, warn=said.append), None)
    epochs = types.SimpleNamespace(_distributed_dataset=dataset)
    for count in counts:
        position.pass_over(epochs, count, range(1, 6))
    assert position.iterators_made == sum(counts)
    assert orders(dataset, 1) == [expected[sum(counts)]]
    assert (said, position.lost) == ([], [])


def test_validation_data_is_advanced_around_each_skipped_iterator():
    position = DataPosition(types.SimpleNamespace(say=print, warn=print), None)
    before = []
    epochs = types.SimpleNamespace(_distributed_dataset=shuffled())
    position.pass_over(epochs, 3, (), between=lambda number, watched: before.append(number))
    assert before == [0, 1, 2, 3]


def test_unsavable_position_is_reported_with_its_operation_and_a_replacement():
    said = []
    position = DataPosition(types.SimpleNamespace(say=said.append, warn=said.append), None)
    position.obstacle = because("position-not-saved", why="RandomUniform is stateful")
    position._tell_obstacle()
    (line,) = said
    assert line.startswith("the position in the data cannot be saved (RandomUniform is stateful): ")
    assert "To have it saved, write tf.random.stateless_uniform(shape, seed) instead of tf.random.uniform" in line


def test_cost_of_the_buffers_is_reported_once_although_it_changes():
    said = {}
    fits = types.SimpleNamespace(
        say_once=lambda text, about: said.setdefault(about, text), seconds_between_faults=lambda: 1e9,
        free_bytes=lambda: None,
    )  # fmt: skip
    position = DataPosition(fits, None)
    position._iterator = iter(tf.data.Dataset.range(20))
    for cost in ((0.6, 250_000), (1.2, 260_000)):
        position._cost = cost
        assert not position._pays(between_saves=1.0)
    (line,) = said.values()
    assert line == (
        "the data pipeline's buffers take 244 KiB and 0.6 s to save: after a fault, the epoch's batches are replayed"
        " instead"
    )


def test_unrepeatable_draws_get_the_same_reason_and_remedy_as_the_label():
    keras.utils.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(np.zeros((8, 4, 4, 1), "float32"))
    data = data.map(tf.image.random_flip_left_right, num_parallel_calls=2)
    said = []
    position = DataPosition(types.SimpleNamespace(say=said.append, warn=said.append), None)
    position.look_at(iter(data))
    position.obstacle = because("position-not-saved", why="RandomUniform is stateful")
    position._tell_obstacle()
    position._tell_obstacle()
    reason = because("raced", call="tf.image.random_flip_left_right")
    assert said == [f"a resumed run gets different batches: {reason}. To fix this, {reason.remedy}"]


class InFolder(types.SimpleNamespace):
    """A checkpoint draft whose files are written to `folder`."""

    def filled(self, write):
        return write()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (shuffled().cache(), ["cache() keeps the order of a shuffle that is over"]),
        (shuffled(), []),
    ],
    ids=["cached", "shuffled"],
)
def test_order_kept_by_a_full_cache_is_reported_in_the_epoch_that_reads_it(tmp_path, data, told):
    list(data)
    said = []
    position = DataPosition(types.SimpleNamespace(say=said.append, warn=said.append), None)
    iterator = iter(data)
    position.look_at(iterator)
    next(iterator)
    position.save(InFolder(folder=tmp_path), 60.0)
    position._tell_obstacle()
    assert [line.partition("(")[2].partition("):")[0] for line in said] == told


def test_replay_time_excludes_waiting_for_memory(monkeypatch):
    said, now = [], [100.0]
    monkeypatch.setattr(data_position, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    position = DataPosition(types.SimpleNamespace(say=said.append, warn=said.append), None)
    position.look_at(iter(tf.data.Dataset.range(9)))
    position.obstacle = because("position-not-saved", why="PyFunc is stateful")
    position.taken, now[0] = 1, 117.0
    position.step_recovered(17.0)
    position._tell_obstacle()
    assert "are replayed (1 so far)." in said.pop()
    position.taken, now[0], position._told = 4, 123.0, False
    position._tell_obstacle()
    assert "are replayed (4 so far, at most 8 s)." in said.pop()
