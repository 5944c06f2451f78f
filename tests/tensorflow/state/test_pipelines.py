"""What a tf.data pipeline depends on, judging by its parts."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.pipelines import datasets
from oomph.keras_bridge.pipelines.datasets import KernelDraws

RANGE = tf.data.Dataset.range


def drawn(element, **options):
    return element, tf.random.uniform((2,), **options)


def adding(variable):
    return RANGE(8).map(lambda x: x + variable)


PIPELINES = {
    "plain": lambda: RANGE(8).map(lambda x: x + 1).batch(2),
    "shuffled": lambda: RANGE(8).shuffle(4).batch(2).prefetch(1),
    "random": lambda: RANGE(8).map(drawn),
    "random with a seed": lambda: RANGE(8).map(lambda x: drawn(x, seed=3)).shuffle(4),
    "random below": lambda: RANGE(8).map(drawn).batch(2).filter(lambda x, y: True).prefetch(2),
    "random in a branch": lambda: RANGE(8).map(lambda x: tf.cond(x > 2, lambda: drawn(0)[1], lambda: tf.zeros(2))),
    "random of one element": lambda: RANGE(1).map(drawn),
    "random before many": lambda: RANGE(1).flat_map(lambda x: RANGE(5).map(lambda y: drawn(y)[1])),
    "stateless": lambda: RANGE(8).map(lambda x: tf.random.stateless_uniform((2,), (x, x))),
    "python": lambda: RANGE(8).map(lambda x: tf.py_function(lambda y: y, [x], tf.int64)),
    "NumPy": lambda: RANGE(8).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64)).batch(2),
    "a generator": lambda: tf.data.Dataset.from_generator(
        lambda: iter([1, 2]), output_signature=tf.TensorSpec((), tf.int64)
    ),
    "a variable": lambda: adding(tf.Variable(1, dtype="int64")),
    "interleaved": lambda: RANGE(3).interleave(lambda x: RANGE(2)).zip(RANGE(6).cache()),
}


def facts(name):
    data = PIPELINES[name]()
    return datasets.kernel_draws(data), datasets.depends_on_python(data), datasets.shuffles(data)


@pytest.mark.parametrize(
    ("name", "draws", "python", "shuffles"),
    [
        ("plain", KernelDraws.NONE, False, False),
        ("shuffled", KernelDraws.NONE, False, True),
        ("random", KernelDraws.SEEDED, False, False),
        ("random with a seed", KernelDraws.SEEDED, False, True),
        ("random below", KernelDraws.SEEDED, False, False),
        ("random in a branch", KernelDraws.SEEDED, False, False),
        ("random of one element", KernelDraws.NONE, False, False),
        ("random before many", KernelDraws.SEEDED, False, False),
        ("stateless", KernelDraws.NONE, False, False),
        ("python", KernelDraws.NONE, True, False),
        ("NumPy", KernelDraws.NONE, True, False),
        ("a generator", KernelDraws.NONE, True, False),
        ("a variable", KernelDraws.NONE, True, False),
        ("interleaved", KernelDraws.NONE, False, False),
    ],
)
def test_pipeline_dependencies_are_found_at_any_depth(name, draws, python, shuffles):
    assert facts(name) == (draws, python, shuffles)


def test_an_unseeded_pipeline_is_not_reproducible():
    try:
        tf.random.set_seed(None)
        assert datasets.kernel_draws(PIPELINES["random"]()) is KernelDraws.UNSEEDED
        assert datasets.kernel_draws(PIPELINES["random with a seed"]()) is KernelDraws.SEEDED
        assert not datasets.is_reproducible(PIPELINES["plain"]())
    finally:
        tf.random.set_seed(0)
    assert datasets.is_reproducible(PIPELINES["plain"]())


def arrays(shuffle):
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

    return ArrayDataAdapter(np.zeros((9, 1)), np.zeros((9, 1)), batch_size=2, shuffle=shuffle).get_tf_dataset()


ORDERED = {
    "arrays": (lambda: arrays(shuffle=True), True),
    "arrays as they are": (lambda: arrays(shuffle=False), False),
    "a shuffle": (PIPELINES["shuffled"], False),  # its seeds are known: see protocol/entropy.py
    "shuffles within a function": (lambda: RANGE(2).flat_map(lambda i: RANGE(4).shuffle(4)).batch(2), True),
    "those with a seed": (lambda: RANGE(2).flat_map(lambda i: RANGE(4).shuffle(4, seed=3)), False),
}


@pytest.mark.parametrize("name", ORDERED)
def test_pipelines_with_an_unseeded_random_order_are_detected(name):
    make, by_chance = ORDERED[name]
    try:
        tf.random.set_seed(None)
        assert datasets.is_ordered_by_chance(make()) is by_chance
    finally:
        tf.random.set_seed(0)
    assert not datasets.is_ordered_by_chance(make())


SHUFFLES = """
import sys
from oomph.inject.hook import after_import
from oomph.protocol.entropy import seeding
after_import(seeding(sys.argv[1]))
import tensorflow as tf
if sys.argv[2:]:
    tf.random.set_seed(int(sys.argv[2]))
data = tf.data.Dataset.range(50).shuffle(50), tf.data.Dataset.range(50).shuffle(50), tf.data.Dataset.random().take(2)
for dataset in (*data, data[0], tf.data.Dataset.range(50).shuffle(50, seed=4)):
    print([int(number) for number in dataset])
"""


def shuffled(*arguments):
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    ended = subprocess.run(
        [sys.executable, "-c", SHUFFLES, *arguments], env=environ, capture_output=True, text=True, timeout=200
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout.splitlines()


@pytest.mark.slow
def test_unseeded_datasets_are_shuffled_identically_in_every_attempt_of_a_run():
    first = shuffled("0" * 31 + "1")
    assert shuffled("0" * 31 + "1") == first
    assert len(set(first)) == 5, "each has an order of its own, and another one in the next epoch"
    other = shuffled("f" * 32)
    assert not set(first[:4]) & set(other[:4])
    assert first[4] == other[4], "the script's own seed"
    assert shuffled("0" * 31 + "1", "3") == shuffled("f" * 32, "3") == shuffled("", "3")


def test_a_pipeline_with_nondeterministic_order_is_not_reproducible():
    options = tf.data.Options()
    options.deterministic = False
    assert not datasets.is_reproducible(PIPELINES["plain"]().with_options(options))
    assert not datasets.is_reproducible(None)


def orders(dataset, epochs, going_through):
    """Return the order of the last of several epochs, after the others were read completely or only started."""
    for _ in range(epochs - 1):
        iterator = iter(dataset)
        if going_through:
            list(iterator)
    return [np.asarray(element).tolist() for element in dataset]


BEGUN = {
    "a shuffle": lambda: RANGE(20).shuffle(20, seed=1),
    "a shuffle in batches": lambda: RANGE(20).shuffle(20, seed=1).batch(4).map(lambda x: x).prefetch(1),
    "two shuffles": lambda: RANGE(20).shuffle(20, seed=1).batch(2).shuffle(10, seed=2),
    "a shuffle in repetition": lambda: RANGE(20).shuffle(20, seed=1).repeat(2),
    "a repetition in a shuffle": lambda: RANGE(20).repeat(2).shuffle(40, seed=1),
    "a shuffle that stays": lambda: RANGE(20).shuffle(20, seed=1, reshuffle_each_iteration=False).repeat(2),
    "a cached shuffle": lambda: RANGE(20).shuffle(20, seed=1).cache(),
    "shuffles one after the other": lambda: RANGE(9).shuffle(9, seed=1).concatenate(RANGE(9).shuffle(9, seed=2)),
    "no shuffle": lambda: RANGE(20).batch(2).repeat(2),
}


@pytest.mark.parametrize("name", BEGUN)
def test_unread_iterators_advance_to_the_next_epochs_order(name):
    tf.random.set_seed(1)
    expected = orders(BEGUN[name](), 3, going_through=True)
    tf.random.set_seed(1)
    if datasets.is_begun_by_making(BEGUN[name]()):
        tf.random.set_seed(1)
        assert orders(BEGUN[name](), 3, going_through=False) == expected
    else:
        assert "shuffle" in name


def test_a_plain_shuffle_need_not_be_replayed():
    assert datasets.is_begun_by_making(BEGUN["a shuffle"]())
    assert datasets.is_begun_by_making(BEGUN["a shuffle in batches"]())
