"""Iterators over validation data, recreated in a resumed fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from oomph.checkpoint.manifest import Meta
from oomph.resume.fit.validation_data import ValidationData
from oomph.resume.training.retaking import Watched

MODEL = SimpleNamespace(distribute_strategy=tf.distribute.get_strategy())


def shuffled(data=16):
    tf.random.set_seed(3)
    return tf.data.Dataset.range(data).shuffle(data)


def order(dataset):
    return [int(each) for each in dataset]


def made(dataset, *entries, **arguments):
    """Return validation data over which an earlier attempt created these iterators, and a checkpoint recording them."""
    checkpoint = SimpleNamespace(meta=Meta(validated_after=[list(entry) for entry in entries]))
    return ValidationData({"validation_data": dataset, **arguments}, MODEL), checkpoint


def caught_up(validation, checkpoint, trained_on):
    validation.catch_up(checkpoint, trained_on, Watched(lambda text: None))


@pytest.mark.parametrize("epochs", [0, 1, 3])
def test_next_validation_order_matches_an_uninterrupted_run(epochs):
    expected = [order(dataset) for dataset in [shuffled()] for _ in range(epochs + 1)][-1]
    dataset = shuffled()
    caught_up(*made(dataset, *([epoch + 1, 1] for epoch in range(epochs))), trained_on=epochs)
    assert order(dataset) == expected


def test_shuffle_after_a_cache_resumes_in_the_uninterrupted_order():
    def data():
        return shuffled().cache().shuffle(16)

    expected = [order(dataset) for dataset in [data()] for _ in range(3)][-1]
    dataset = data()
    caught_up(*made(dataset, [1, 1], [2, 1]), trained_on=2)
    assert order(dataset) == expected


def test_validation_iterators_are_recreated_in_their_original_order():
    validation, checkpoint = made(shuffled(), [1, 1], [1, 0], [3, 1])
    for trained_on, count in ((0, 0), (1, 2), (2, 2), (3, 3), (9, 3)):
        caught_up(validation, checkpoint, trained_on)
        assert len(validation.made) == count


def test_validation_iterators_are_recorded_with_whether_keras_used_them():
    validation = ValidationData({"validation_data": shuffled()}, MODEL)
    validation.note_used()
    validation.note_made(1)
    validation.note_used()
    validation.note_made(1)
    assert validation.made == [[1, 1], [1, 0]]
    validation.forget()
    assert validation.made == []


@pytest.mark.parametrize("data", [None, (), np.zeros(3), (np.zeros(3), np.zeros(3)), tf.data.Dataset.range(3)])
def test_validation_iterators_with_a_fixed_order_are_not_tracked(data):
    validation, checkpoint = made(data, [1, 1])
    validation.note_made(1)
    caught_up(validation, checkpoint, 5)
    assert validation.made == []
