"""A trial traces a step with the sizes the data declares: fixed sizes as fixed, open ones as open."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402

from oomph.preflight.document import LOST  # noqa: E402
from oomph.preflight.live.carrying import carried_by_fit  # noqa: E402
from oomph.preflight.live.examine import held_line  # noqa: E402
from oomph.preflight.live.training_facts import training_facts, with_waiting  # noqa: E402


@keras.saving.register_keras_serializable("test_static_sizes")
class SizeAsFloat(keras.Model):
    """Its step uses the batch size as a float, which TensorFlow allows only if it knows the size."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(4)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        size = tf.shape(x, out_type=tf.float32)[0]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((self(x, training=True) - y) ** 2) / size
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}


def given(drops: bool):
    x, y = np.random.rand(256, 500).astype("float32"), np.random.rand(256, 4).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64, drop_remainder=drops)
    return {"x": dataset, "epochs": 2}


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_batch_size_fixed_by_drop_remainder_is_static(jit_compile):
    model, arguments = SizeAsFloat(), given(drops=True)
    model.compile("adam", jit_compile=jit_compile)
    training = training_facts(model, "fit", arguments, "train.py:1")
    assert training.trial is not None
    assert training.trial.failed == ""
    waiting = with_waiting(training, model, arguments, tunes=False).waiting
    assert waiting is not None
    assert waiting.steps > 0
    assert held_line(model).startswith(
        "weights and optimizer take 26 KiB;"
    )  # three times (500 * 4 + 4) numbers, and counts


def test_unspecified_batch_size_is_not_static():
    model, arguments = SizeAsFloat(), given(drops=False)
    model.compile("adam")
    assert held_line(model).startswith("weights, excluding the optimizer's slots, take")
    trial = training_facts(model, "fit", arguments, "train.py:1").trial
    assert trial is not None
    assert "out_type" in trial.failed  # as it fails in fit


def test_memory_line_includes_a_custom_loops_optimizer_once_it_is_built():
    model, optimizer = SizeAsFloat(), keras.optimizers.Adam()
    model(np.zeros((8, 500), np.float32))
    assert held_line(model, optimizer).startswith("weights, excluding the optimizer's slots, take")
    optimizer.build(model.trainable_variables)
    assert held_line(model, optimizer).startswith("weights and optimizer take")


def test_check_and_run_give_the_same_reason_against_micro_batches():
    class Centred(keras.Sequential):
        def call(self, x):
            found = super().call(x)
            return found - keras.ops.mean(found, axis=0)

    model = Centred([keras.Input((20,)), keras.layers.Dense(4)])
    model.compile("adam", "mse")
    x, y = np.random.rand(64, 20).astype("float32"), np.random.rand(64, 4).astype("float32")
    memory = next(each for each in carried_by_fit(model, {"x": x, "y": y}, (x, y)) if each.what == "out of memory")
    assert memory.state == LOST
    assert memory.text.endswith(
        "--inexact=allow accepts that; --allow-smaller-batch trains on smaller batches, each with its own update"
    )


def test_the_memory_line_of_an_uncompiled_model_covers_only_the_weights():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(512)])
    assert held_line(model).startswith("weights, excluding the optimizer's slots, take 10 KiB;")
