"""Outputs may differ between samples in training mode even if moving statistics hide the input at inference."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from oomph.preflight.live.trial_steps import differ_in_training

X = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")


def model(scale: float, trainable: bool = True, dropout: float = 0.0) -> keras.Model:
    """A model that loses small inputs in its bias, unless normalisation scales them up again."""
    normalise = keras.layers.BatchNormalization(epsilon=1e-20, trainable=trainable)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Rescaling(scale),
            normalise,
            keras.layers.Dense(8, bias_initializer="ones"),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(2, bias_initializer="ones"),
        ]
    )


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (model(1e-9), True),
        (model(1e-9, dropout=0.5), True),
        (model(1e-9, trainable=False), False),  # training also uses the moving statistics
        (model(0.0), False),
        (model(0.0, dropout=0.5), False),  # noise is not a difference between samples
    ],
)
def test_layers_with_different_outputs_for_equal_samples_are_found(built, expected):
    assert np.ptp(np.asarray(built(X, training=False)), axis=0).max() < 1e-6
    assert differ_in_training(built, X) == expected
    assert not any("call" in vars(layer) for layer in built.layers)


def test_failing_model_is_not_reported_as_differing():
    assert not differ_in_training(model(1e-9), X[:, :3])
