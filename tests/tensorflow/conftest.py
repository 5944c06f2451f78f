"""TensorFlow, imported once for all tests of this folder, quietly and without a GPU."""

from __future__ import annotations

import importlib.util
import os
import warnings

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]

if not collect_ignore_glob:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what TensorFlow and its dependencies say to each other
        import keras
        import tensorflow  # noqa: F401


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(0)


@pytest.fixture
def small_model():
    """A compiled and built model."""

    def make(*layers, optimizer="adam", loss="mse", **compiled):
        model = keras.Sequential([keras.Input((4,)), *(layers or [keras.layers.Dense(3)]), keras.layers.Dense(2)])
        model.compile(optimizer, loss, **{"jit_compile": False, **compiled})
        return model

    return make
