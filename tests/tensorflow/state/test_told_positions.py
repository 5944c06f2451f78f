"""Grain data continues from where it was: a checkpoint stores the position that its iterator reports."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from oomph.resume.state import iterators
from oomph.resume.state.iterators import TellingData

grain = pytest.importorskip("grain", reason="needs Grain, which Keras reads data with")

X = np.arange(200, dtype=np.float32)


class Source:
    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index]


class Noise(grain.transforms.RandomMap):
    def random_map(self, element, rng):
        return element + np.float32(rng.normal())


def loader():
    sampler = grain.samplers.IndexSampler(len(X), shuffle=True, seed=3, num_epochs=1)
    operations = [Noise(), grain.transforms.Batch(10)]
    return grain.DataLoader(data_source=Source(), sampler=sampler, operations=operations, worker_count=0)


MAKERS = {
    "MapDataset": lambda: grain.MapDataset.source(Source()).shuffle(seed=3).random_map(Noise(), seed=5).batch(10),
    "IterDataset": lambda: grain.MapDataset.source(Source()).seed(1).shuffle().to_iter_dataset().batch(10),
    "filter": lambda: grain.MapDataset.source(Source()).to_iter_dataset().filter(lambda each: each > 20).batch(7),
    "repeat": lambda: grain.MapDataset.source(Source()).seed(2).shuffle().repeat().batch(10),
    "DataLoader": loader,
}


def read_by_tensorflow(data):
    return tf.data.Dataset.from_generator(lambda: data, output_signature=tf.TensorSpec([None], tf.float32))


def taken(iterator, count):
    return [next(iterator).numpy().tolist() for _ in range(count)]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("at", [0, 1, 5, 15])
def test_batches_continue_from_the_restored_position(name, at):
    first = TellingData(read_by_tensorflow(MAKERS[name]()))
    iterator = iter(first.dataset)
    taken(iterator, at)
    told = json.loads(json.dumps(first.position(at)))
    expected = taken(iterator, 3)
    other = TellingData(read_by_tensorflow(MAKERS[name]()))
    assert other.go_to(told, at)
    again = iter(other.dataset)
    assert taken(again, 3) == expected
    assert other.position(at + 3)["state"].keys() == first.position(at + 3)["state"].keys()
    whole = taken(iter(other.dataset), 2)
    assert whole == taken(iter(read_by_tensorflow(MAKERS[name]())), 2), "the next epoch begins at the beginning"


def told_by(data, count=2):
    telling = TellingData(read_by_tensorflow(data))
    taken(iter(telling.dataset), count)
    return telling.position(count)


@pytest.mark.parametrize(
    "change",
    [
        {"class": "builtins.print"},
        {"state": {}},
        {"state": {"next_index": "5"}},
        {"state": {"next_index": 10**9}},
        {"state": {"next_index": -5}},
        {"state": {"next_index": 2, "more": 1}},
        {"state": [2]},
        {"bytes": True},
    ],
    ids=str,
)
def test_invalid_position_is_rejected_and_data_starts_over(change):
    data = MAKERS["MapDataset"]()
    told = told_by(data)
    assert told["state"] == {"next_index": 2}
    telling = TellingData(read_by_tensorflow(data))
    assert not telling.go_to({**told, **change}, 2)
    assert taken(iter(telling.dataset), 1) == taken(iter(read_by_tensorflow(data)), 1)


def test_position_in_other_data_is_rejected():
    assert not TellingData(read_by_tensorflow(MAKERS["MapDataset"]())).go_to(told_by(loader()), 2)


def test_only_grain_iterators_report_their_position():
    class Mine:
        def get_state(self):
            raise AssertionError

        set_state = get_state

    assert iterators.position_of(Mine()) is None
    assert not iterators.go_to(Mine(), told_by(loader()))


def test_a_position_that_takes_too_long_to_read_is_not_saved(monkeypatch):
    monkeypatch.setattr(iterators, "_SECONDS", -1)
    assert told_by(loader()) is None
