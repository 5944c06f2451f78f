"""The operations, other than layers, that inputs pass through before any weights."""

from __future__ import annotations

import keras
import pytest

from oomph.preflight.live.model_facts import operations_before_weights


def ends(x: keras.KerasTensor, of: keras.KerasTensor) -> keras.Model:
    """Return a model that ends in a single unit."""
    return keras.Model(of, keras.layers.Dense(1)(x))


def graph() -> keras.Model:
    inputs = keras.Input((4,))
    return ends((keras.layers.Dropout(0.1)(inputs) - 2.0) / 255.0, inputs)


def after_weights() -> keras.Model:
    inputs = keras.Input((4,))
    return ends(keras.layers.Dense(3)(inputs) / 255.0, inputs)


def nested() -> keras.Model:
    """Scaling in a model, in a Sequential model, and in a graph."""
    raw = keras.Input((4,))
    row = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.1), keras.Model(raw, raw / 255.0)])
    inputs = keras.Input((4,))
    return ends(row(inputs), inputs)


def beside_weights() -> keras.Model:
    """One input that passes through many weights, and one that is divided."""
    words, numbers = keras.Input((4,)), keras.Input((4,))
    x = keras.layers.Embedding(9, 2)(words)
    x = keras.layers.Dense(4)(keras.layers.Dense(4)(keras.layers.Flatten()(x)))
    return ends(keras.layers.Concatenate()([x, numbers / 255.0]), [words, numbers])


def preprocessed() -> keras.Model:
    inputs = keras.Input((8, 8, 3))
    x = keras.applications.mobilenet_v2.preprocess_input(inputs)
    return ends(keras.layers.Flatten()(keras.layers.Conv2D(2, 3)(x)), inputs)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (graph, {"Subtract", "TrueDivide"}),
        (after_weights, set()),
        (nested, {"TrueDivide"}),
        (beside_weights, {"TrueDivide"}),
        (preprocessed, {"Subtract", "TrueDivide"}),
    ],
)
def test_operations_applied_before_the_first_weights_are_found(built, expected):
    assert set(operations_before_weights(built())) == expected


def test_a_model_without_a_graph_yields_no_operations():
    assert operations_before_weights(keras.Sequential([keras.layers.Dense(1)])) == ()
