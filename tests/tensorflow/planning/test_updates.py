"""The optimizer's update is told from gradients and activations by the names of its operations."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from oomph.planning.breakdown import items
from oomph.planning.live import subject
from oomph.planning.live.engine import engine_for
from oomph.planning.live.updates import is_update_of

layers = keras.layers


@pytest.mark.parametrize(
    ("name", "is_update"),
    [
        ("adam/Sub_126", True), ("adam_1/Mul", True), ("cond/cond/adam_1/Square_4", True),
        ("StatefulPartitionedCall/adam/Sqrt", True), ("gradient_tape/adam/MatMul", False), ("dense/adam", False),
        ("adamant/Mul", False), ("sequential/dense/MatMul", False),
    ],
)  # fmt: skip
def test_an_update_is_recognised_by_its_optimizer_scope(name, is_update) -> None:
    assert is_update_of([keras.optimizers.Adam(name="adam")])(name) is is_update


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_peak_during_the_update_is_attributed_to_it(is_scaled) -> None:
    model = keras.Sequential([keras.Input((256,)), layers.Dense(512), layers.Dense(512), layers.Dense(10)])
    adam = keras.optimizers.Adam()
    model.compile(keras.optimizers.LossScaleOptimizer(adam) if is_scaled else adam, "mse", jit_compile=False)
    batch = (tf.zeros([4, 256]), tf.zeros([4, 10]))
    subject.build(model, batch)
    engine = engine_for(model, batch, lambda text: None, runs=False)
    found = {item.name: item.size.expected for item in items(engine.program, engine.at(4), engine.held)}
    assert found["optimizer update"] > 512 * 512 * 4
    assert found.get("activations", 0) < 1 << 16, "four samples of at most 512 numbers in each layer"
