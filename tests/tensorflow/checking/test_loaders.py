"""`check` reads everything that Keras' `fit` accepts or reports it as unread; only empty data is called empty."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from oomph.preflight.facts.data import ARRAYS, DATASET, LOADER, OTHER
from oomph.preflight.live.data_facts import look_at
from oomph.preflight.live.reading import Limits

X = np.arange(80, dtype=np.float32).reshape(20, 4)
Y = X.sum(1, keepdims=True)


class Pairs:
    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index], Y[index]


def of_grain(change=lambda data: data):
    grain = pytest.importorskip("grain", reason="needs Grain, which Keras reads data with")
    return change(grain.MapDataset.source(Pairs()).shuffle(seed=1)).batch(8)


def of_torch():
    torch = pytest.importorskip("torch", reason="needs PyTorch, whose DataLoader Keras reads")
    return torch.utils.data.DataLoader(Pairs(), batch_size=8)


@pytest.mark.parametrize(
    "make", [of_grain, lambda: of_grain(lambda data: data.to_iter_dataset()), of_torch], ids=["map", "iter", "torch"]
)
def test_data_loaders_are_read_as_keras_reads_them(make):
    looked = look_at(make())
    data = looked.data
    assert (data.kind, data.batches, data.samples, data.failed) == (LOADER, 3, 20, "")
    assert [(part.role, part.shape, part.sample.rows) for part in data.parts] == [
        ("x", (None, 4), 20),
        ("y", (None, 1), 20),
    ]
    assert [type(part) for part in looked.batch] == [np.ndarray] * 2


def test_endless_grain_data_is_read_for_one_epoch():
    found = look_at(of_grain(lambda data: data.repeat()), limits=Limits(epoch=5, reads_on=True)).data
    assert (found.batches, found.failed) == (None, "")
    assert found.parts[0].sample.rows == 40


def sparse_of_scipy():
    from scipy import sparse

    return sparse.csr_matrix(X)


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("on another machine")


@pytest.mark.parametrize("make", [sparse_of_scipy, Unreadable], ids=["scipy", "unreadable"])
def test_unreadable_data_is_reported_by_type_instead_of_empty(make):
    data = look_at(make()).data
    assert (data.kind, data.batches, data.unread) == (OTHER, None, type(make()).__name__)


def test_a_distributed_dataset_is_read_like_the_original_dataset():
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    found = look_at(strategy.experimental_distribute_dataset(dataset)).data
    assert (found.kind, found.batches, found.samples) == (DATASET, 3, 20)


@pytest.mark.parametrize("make", [list, lambda: np.zeros((0, 4))], ids=["list", "array"])
def test_empty_data_is_reported_as_zero_batches(make):
    assert (look_at(make()).data.kind, look_at(make()).data.batches) == (ARRAYS, 0)
