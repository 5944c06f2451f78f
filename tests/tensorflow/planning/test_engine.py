"""The engine compared with real steps: its prediction and what TensorFlow's allocator counts in the same process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.errors import ExamineError
from oomph.planning.live import dry_run, samples, subject
from oomph.planning.live.engine import Engine, engine_for
from oomph.planning.live.figures import Simulated
from oomph.planning.live.savers import frozen_but_head, savers, set_optimizer, set_policy, why_refused, with_precision
from oomph.planning.live.step_at_sizes import StepAtSizes
from oomph.planning.live.tracing import trace
from oomph.planning.plan import PlannedReplicas
from oomph.preflight.live.examine import held_line

MIB = 1 << 20
layers = keras.layers


def dense() -> tuple[keras.Model, tuple[tf.Tensor, tf.Tensor]]:
    model = keras.Sequential([keras.Input((256,)), *(layers.Dense(512, "relu") for _ in range(3)), layers.Dense(10)])
    return compiled(model), (tf.zeros([4, 256]), tf.zeros([4, 10]))


def convolutions() -> tuple[keras.Model, tuple[tf.Tensor, tf.Tensor]]:
    parts = [layer for size in (16, 32) for layer in (layers.Conv2D(size, 3, activation="relu"), layers.MaxPooling2D())]
    model = keras.Sequential([keras.Input((32, 32, 3)), *parts, layers.Flatten(), layers.Dense(10)])
    return compiled(model), (tf.zeros([4, 32, 32, 3]), tf.zeros([4, 10]))


def recurrent() -> tuple[keras.Model, tuple[tf.Tensor, tf.Tensor]]:
    model = keras.Sequential([keras.Input((40,)), layers.Embedding(2000, 64), layers.LSTM(128), layers.Dense(1)])
    return compiled(model), (tf.zeros([4, 40], tf.int64), tf.zeros([4, 1]))


def compiled(model: keras.Model) -> keras.Model:
    model.compile("adam", "mse", jit_compile=False)
    return model


def engine(make, runs: bool = False) -> Engine:
    model, batch = make()
    model._symbolic_build(data_batch=batch)
    model.optimizer.build(model.trainable_variables)
    return engine_for(model, batch, lambda text: None, runs)


@pytest.mark.parametrize("make", [dense, convolutions, recurrent])
def test_predicted_memory_grows_with_the_batch_and_exceeds_held_memory(make) -> None:
    found = engine(make)
    peaks = [found.at(batch).peak for batch in (1, 2, 16, 256, 4096)]
    for one, other in itertools.pairwise(peaks):
        assert one.low <= other.low
        assert one.expected <= other.expected
        assert one.high <= other.high
    assert peaks[-1].expected > 1.5 * peaks[0].expected
    assert all(peak.low >= 0.9 * found.held.total for peak in peaks)


def test_held_memory_is_counted_from_the_variables() -> None:
    model, batch = dense()
    model._symbolic_build(data_batch=batch)
    model.optimizer.build(model.trainable_variables)
    held = subject.held_by(model)
    weights = 4 * model.count_params()
    assert held.weights == pytest.approx(weights, rel=0.01)
    assert held.slots == pytest.approx(2 * weights, rel=0.01)
    assert subject.trainable_bytes(model) == pytest.approx(weights, rel=0.01)


def test_memory_kept_by_each_loop_iteration_is_counted() -> None:
    found = engine(recurrent)
    each = (found.at(256).peak.expected - found.at(64).peak.expected) / 192
    assert each > 40 * 128 * 4 * 5, "gates and states of forty iterations, for the backward pass"
    assert not any("iterations" in text for text in found.unknown)


class Chosen(layers.Layer):
    """Keeps the samples whose first feature is positive; their number depends on the data."""

    def call(self, x):
        return tf.boolean_mask(x, x[:, 0] > 0)


def test_data_dependent_size_is_assumed_and_reported() -> None:
    def make():
        inputs = keras.Input((64,))
        chosen = Chosen()(layers.Dense(256)(inputs))
        model = keras.Model(inputs, tf_mean(chosen))
        return compiled(model), (tf.zeros([4, 64]), tf.zeros([1, 1]))

    found = engine(make)
    assert any("is assumed to be as large as its largest input" in text for text in found.unknown)
    peak = found.at(64).peak
    assert peak.high > 1.4 * peak.low


def tf_mean(x):
    return layers.Lambda(lambda value: tf.reduce_mean(value, keepdims=True), output_shape=(1,))(x)


def test_plan_with_frozen_layers_needs_less_and_the_model_is_restored() -> None:
    model, batch = convolutions()
    model._symbolic_build(data_batch=batch)
    model.optimizer.build(model.trainable_variables)
    before = engine_for(model, batch, lambda text: None, runs=False).at(64).peak.expected
    count, optimizer = len(model.trainable_variables), model.optimizer
    with frozen_but_head(model) as head:
        assert model.layers[-1].name == head
        assert len(model.trainable_variables) == 2
        assert engine_for(model, batch, lambda text: None, runs=False).at(64).peak.expected < 0.7 * before
    assert len(model.trainable_variables) == count
    assert model.optimizer is optimizer


def test_plan_in_half_precision_needs_less_and_the_model_is_restored() -> None:
    model, batch = convolutions()
    model._symbolic_build(data_batch=batch)
    model.optimizer.build(model.trainable_variables)
    before = engine_for(model, batch, lambda text: None, runs=False)
    with with_precision(model, "mixed_bfloat16"):
        mixed = engine_for(model, batch, lambda text: None, runs=False)
    grown = [(found.at(512).peak.expected - found.at(64).peak.expected) for found in (before, mixed)]
    assert grown[1] < 0.75 * grown[0]
    assert {layer.dtype_policy.name for layer in model.layers} == {"float32"}


def test_unknown_policy_or_optimizer_is_rejected_by_name() -> None:
    model, _ = dense()
    with pytest.raises(ExamineError, match="--policy float12"):
        set_policy(model, "float12")
    with pytest.raises(ExamineError, match="--optimizer adamant"):
        set_optimizer(model, "adamant")


def test_fixed_batch_size_model_is_planned_only_for_that_size() -> None:
    model = keras.Sequential([keras.Input(batch_shape=(4, 20, 3)), layers.LSTM(8, stateful=True), layers.Dense(1)])
    batch = (tf.zeros([4, 20, 3]), tf.zeros([4, 1]))
    compiled(model)._symbolic_build(data_batch=batch)
    model.optimizer.build(model.trainable_variables)
    found = engine_for(model, batch, lambda text: None, runs=False)
    assert found.only == 4
    assert found.at(4).peak.expected > 0
    with pytest.raises(ExamineError, match="own batch of 4 samples"):
        found.at(8)


REAL = """
import json, tensorflow as tf
from test_engine import dense, engine
found = engine(dense, runs=True)  # without scratch memory, which counts or not by what runs beside what
model, _ = dense()
batch = (tf.zeros([4096, 256]), tf.zeros([4096, 10]))
model._symbolic_build(data_batch=batch)
model.optimizer.build(model.trainable_variables)
step = tf.function(lambda data: model.train_step(data), autograph=False)
truth = 0
for _ in range(8):  # what runs beside what is left to chance
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    tf.config.experimental.reset_memory_stats("CPU:0")
    step(batch)
    truth = max(truth, tf.config.experimental.get_memory_info("CPU:0")["peak"] - before + found.held.total)
peak = found.at(4096).peak
print(json.dumps({"engine": found.name, "truth": truth, "low": peak.low, "expected": peak.expected, "high": peak.high}))
"""


@pytest.mark.slow
def test_a_prediction_corrected_by_real_steps_is_close_to_the_measured_memory() -> None:
    """With the allocator used on GPUs, in a separate process, next to a real step of another size."""
    environ = os.environ | {
        "CUDA_VISIBLE_DEVICES": "-1", "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "2000",
        "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONPATH": str(Path(__file__).parent),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", REAL], capture_output=True, text=True, timeout=200, check=True, env=environ
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["engine"] == "dry-run"
    assert found["expected"] == pytest.approx(found["truth"], rel=0.2)
    assert found["truth"] <= found["high"]


def test_samples_are_repeated_to_fill_a_batch_of_another_size() -> None:
    batch = ({"a": tf.constant(np.arange(6).reshape(3, 2))}, tf.constant([1, 2, 3]), tf.constant(7))
    spec = samples.specification(batch)
    bigger = samples.resized(spec, 3, 8)
    assert bigger[0]["a"].shape == (8, 2)
    assert bigger[1].shape == (8,)
    assert bigger[2].shape == ()
    repeated = samples.repeated(batch, 3, 7)
    assert repeated[1].numpy().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert repeated[2].numpy() == 7


def test_ragged_batches_are_rejected() -> None:
    with pytest.raises(ExamineError, match="ragged"):
        samples.specification((tf.ragged.constant([[1], [2, 3]]), tf.constant([1, 2])))


def test_fit_array_sizes_use_keras_dtypes() -> None:
    arguments = {"x": {"a": np.zeros((10, 4), "float32"), "b": np.zeros(3, "int32")}, "y": np.zeros(10), "epochs": 3}
    assert sorted(samples.array_sizes(arguments)) == [3 * 4, 10 * 4, 10 * 4 * 4], "numbers of 64 bits become floatx"
    assert sorted(samples.array_sizes(arguments, on_gpu=True)) == [10 * 4, 10 * 4 * 4], "int32 stays on the host"
    assert samples.array_sizes({"x": tf.data.Dataset.range(3), "y": None}) == []


class Adversarial(keras.Model):
    """A GAN as in tutorials: never called as a whole, with two optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential([keras.Input((8,)), layers.Dense(64, "relu"), layers.Dense(32)])
        self.discriminator = keras.Sequential([keras.Input((32,)), layers.Dense(64, "relu"), layers.Dense(1)])

    def compile(self, first, second) -> None:
        super().compile(jit_compile=False)
        self.first, self.second = first, second

    def train_step(self, data):
        real = data[0] if isinstance(data, tuple) else data
        noise = tf.random.normal([tf.shape(real)[0], 8])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.discriminator(real)) - tf.reduce_mean(self.discriminator(self.generator(noise)))
        weights = self.discriminator.trainable_weights
        self.first.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.discriminator(self.generator(noise)))
        weights = self.generator.trainable_weights
        self.second.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


def test_never_called_model_is_planned_by_its_train_step() -> None:
    model, batch = Adversarial(), (tf.zeros([4, 32]),)
    model.compile(keras.optimizers.Adam(), keras.optimizers.Adam())
    subject.build(model, batch)
    found = engine_for(model, batch, lambda text: None, runs=False)
    weights = sum(4 * int(np.prod(each.shape)) for each in model.weights)
    assert found.held.weights == pytest.approx(weights, rel=0.1)
    assert found.held.slots == pytest.approx(2 * weights, rel=0.1)
    assert found.at(256).peak.expected > found.at(8).peak.expected
    assert f"{sum(int(np.prod(each.shape)) for each in model.weights):,} parameters" in subject.in_words(model)


def test_unused_optimizer_is_neither_mentioned_nor_counted() -> None:
    """Keras' `compile()` creates one even if a custom `train_step` has its own."""
    model, batch = Adversarial(), (tf.zeros([4, 32]),)
    model.compile(keras.optimizers.Adam(), keras.optimizers.SGD())
    subject.build(model, batch)
    found = engine_for(model, batch, lambda text: None, runs=False)
    assert type(model.optimizer).__name__ == "RMSprop"
    assert ", Adam and SGD, float32" in subject.in_words(model)
    assert found.held.slots == subject.size_of([*model.first.variables, *model.second.variables])
    assert held_line(model).startswith("weights and optimizer take ")
    offered = savers(model, batch, found, Simulated(found, None), 4, None, lambda text: None)
    assert not any("SGD instead" in saver.name for saver in offered)


def centred() -> tuple[keras.Model, tuple[tf.Tensor, tf.Tensor]]:
    centring = layers.Lambda(lambda x: x - tf.reduce_mean(x, 0))
    model = keras.Sequential([keras.Input((4,)), layers.Dense(8), centring, layers.Dense(1)])
    return compiled(model), (tf.random.normal([32, 4]), tf.random.normal([32, 1]))


def adversarial() -> tuple[keras.Model, tuple[tf.Tensor]]:
    model = Adversarial()
    model.compile(keras.optimizers.Adam(), keras.optimizers.Adam())
    return model, (tf.random.normal([32, 32]),)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            adversarial,
            "its second optimizer depends on weights that the first one updated; --allow-smaller-batch trains on",
        ),
        (centred, "the update depends on which samples share a batch"),
    ],
)
def test_micro_batches_that_a_run_refuses_are_not_suggested(make, reason: str) -> None:
    model, batch = make()
    subject.build(model, batch)
    engine = engine_for(model, batch, lambda text: None, runs=False)
    before = [each.numpy() for each in model.variables]
    refused = why_refused(model, batch, engine)
    assert refused.startswith(reason)
    assert all(np.array_equal(was, now.numpy()) for was, now in zip(before, model.variables, strict=True))
    found = savers(model, batch, engine, Simulated(engine, None), 32, 8, lambda text: None, False, refused=refused)
    (saver,) = (each for each in found if each.name.startswith("micro-batches"))
    assert (saver.name, saver.peak, saver.line) == ("micro-batches", None, "")
    assert saver.changes == f"not planned, since oomph run does not split this batch: {refused}"


def test_micro_batches_are_suggested_unless_a_probe_finds_a_reason_not_to() -> None:
    scaled = keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: 2 * x), layers.Dense(1)])
    for model, (x, y) in ((compiled(scaled), centred()[1]), centred()):
        zeros = (tf.zeros_like(x), tf.zeros_like(y))
        subject.build(model, zeros)
        engine = engine_for(model, zeros, lambda text: None, runs=False)
        assert why_refused(model, zeros, engine) == "", "zeros show nothing"
        assert why_refused(model, (x, y), engine, PlannedReplicas(2)) == ""
        if model is scaled:
            assert why_refused(model, (x, y), engine) == ""


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([keras.layers.Dense(8)], "only rounding and time change"),
        ([keras.layers.Dense(8), keras.layers.BatchNormalization()], "BatchNormalization sees only one part at a time"),
        ([keras.layers.Lambda(lambda x: x - tf.reduce_mean(x, 0))], "oomph compares the result"),
    ],
)
def test_micro_batch_effect_on_this_model_is_reported(parts: list[keras.layers.Layer], said: str) -> None:
    model = keras.Sequential([keras.Input((4,)), *parts, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    batch = (tf.zeros([4096, 4]), tf.zeros([4096, 1]))
    subject.build(model, batch)
    engine = engine_for(model, batch, lambda text: None, runs=False)
    found = savers(model, batch, engine, Simulated(engine, None), 4096, 64, lambda text: None, False)
    assert said in next(saver.changes for saver in found if saver.name.startswith("micro-batches"))


def test_requested_sizes_are_run_if_memory_and_time_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    batch = (tf.zeros([3, 4]), tf.zeros([3, 1]))
    subject.build(model, batch)
    monkeypatch.setattr(dry_run, "can_measure", lambda: True)
    monkeypatch.setattr(dry_run, "run", lambda traced, batch, foreign: dry_run.Ran((1000 * traced.batch,), 0.1))
    monkeypatch.setattr(StepAtSizes, "_has_room", lambda self, program, size: size <= 5)
    engine = engine_for(model, batch, lambda text: None, foreign=0, asked=[1, 5, 6])
    assert engine.ran == (1, 2, 5)
    monkeypatch.setattr(
        dry_run, "run", lambda traced, batch, foreign: dry_run.Ran((1000 * traced.batch,), 8.0 * traced.batch)
    )
    slow = engine_for(model, batch, lambda text: None, foreign=0, asked=[1, 3, 5])
    assert slow.ran == (1, 2, 3), "a step of five would take longer than half a minute"


def test_sizes_run_in_ascending_order_and_planned_ones_in_several_op_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = dense()
    subject.build(model, batch)
    ran: list[int] = []

    def run(traced, batch, foreign):
        ran.append(traced.batch)
        return dry_run.Ran((1000 * traced.batch + len(ran),), 0.2 * traced.batch)

    monkeypatch.setattr(dry_run, "can_measure", lambda: True)
    monkeypatch.setattr(dry_run, "run", run)
    step = StepAtSizes(model, batch, 4, lambda text: None)
    step.run(0, [40, 4, 1, 8])
    assert ran == [1, 1, 1, 2, 4, 4, 4, 8, 8, 8, 40, 40, 40]
    assert {size: len(orders) for size, orders in step.measured.items()} == {1: 3, 2: 1, 4: 3, 8: 3, 40: 3}


def test_a_reordered_step_gives_the_same_results() -> None:
    model, batch = dense()
    subject.build(model, batch)
    traced = trace(model, samples.specification(batch), 4, 4)
    again = traced.in_another_order()
    assert again.concrete is not traced.concrete
    assert (again.batch, again.flat) == (traced.batch, traced.flat)
    weights, slots = model.get_weights(), [variable.numpy() for variable in model.optimizer.variables]
    data = (tf.random.stateless_normal([4, 256], [1, 2]), tf.ones([4, 10]))
    results = []
    for step in (traced, again):
        model.set_weights(weights)
        for variable, value in zip(model.optimizer.variables, slots, strict=True):
            variable.assign(value)
        step.concrete(data)
        results.append([value.copy() for value in model.get_weights()])
    assert any(not np.array_equal(before, after) for before, after in zip(weights, results[0], strict=True))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


class InFloat32(layers.Layer):
    def call(self, x):
        return tf.multiply(x, tf.constant(2.0, tf.float32))


def test_a_memory_saver_that_makes_the_step_untraceable_is_not_offered() -> None:
    model = compiled(keras.Sequential([keras.Input((4,)), layers.Dense(16), InFloat32(), layers.Dense(1)]))
    batch = (tf.zeros([32, 4]), tf.zeros([32, 1]))
    subject.build(model, batch)
    engine = engine_for(model, batch, lambda text: None, runs=False)
    found = {
        each.name: each for each in savers(model, batch, engine, Simulated(engine, None), 32, 4, lambda text: None)
    }
    assert found["mixed bfloat16"].changes.endswith("does not match type bfloat16 of argument 'x'")
    assert not found["mixed bfloat16"].line
