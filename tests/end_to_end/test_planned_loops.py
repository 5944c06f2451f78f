"""`oomph plan` on custom training loops and on training under a strategy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 120
LOOP = """
import keras
import numpy as np
import tensorflow as tf

hidden = [keras.layers.Dense(512, "relu", name="wide"), keras.layers.Dense(512, "relu")]
model = keras.Sequential([keras.Input((64,)), *hidden, keras.layers.Dense(10)])
optimizer, loss_of = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)

{DECORATOR}
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
    return loss

x, y = np.random.rand(4096, 64).astype("float32"), np.random.randint(0, 10, 4096)
for batch in tf.data.Dataset.from_tensor_slices((x, y)).batch(1024):
    train_step(*batch)
open("trained", "w").close()
"""
UNDER_A_STRATEGY = """
import keras
import numpy as np
import tensorflow as tf

with tf.distribute.MirroredStrategy().scope():
    hidden = [keras.layers.Dense(512, "relu"), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((64,)), *hidden, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(np.random.rand(4096, 64).astype("float32"), np.random.randint(0, 10, 4096), batch_size=512)
open("trained", "w").close()
"""
UNDER_TWO_REPLICAS = """
import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    hidden = [keras.layers.Dense(512, "relu", name="wide"), keras.layers.Dense(512, "relu")]
    model = keras.Sequential([keras.Input((64,)), *hidden, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True){COMPILE})
x, y = np.random.rand(4096, 64).astype("float32"), np.random.randint(0, 10, 4096)
{TRAINS}
open("trained", "w").close()
"""
LOOP_OF_REPLICAS = """
with strategy.scope():
    optimizer = keras.optimizers.Adam()
@tf.function
def train_step(batch):
    def one(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True)) / 2
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
        return loss
    return strategy.reduce("SUM", strategy.run(one, args=batch), axis=None)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(1024, drop_remainder=True)
for batch in strategy.experimental_distribute_dataset(data):
    train_step(batch)
"""
WEIGHTS = 4 * (64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)


def plan(folder: Path, script: str, *options: str, gpu: str = "4GiB") -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "oomph", "plan", "--json", "--gpu", gpu, *options, "train.py"]
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=environ)
    assert not (folder / "trained").exists()
    return done


def test_loop_is_planned_from_its_traced_step(tmp_path: Path) -> None:
    done = plan(tmp_path, LOOP.replace("{DECORATOR}", "@tf.function"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["engine"], document["batch"], document["max_batch"]) == ("graph", 1024, 1024)
    items = {item["name"]: item["expected"] for item in document["items"]}
    assert items["weights"] == pytest.approx(WEIGHTS, rel=0.01)
    assert items["optimizer slots"] == pytest.approx(2 * WEIGHTS, rel=0.01)
    assert {layer["name"] for layer in document["layers"]} >= {"wide"}
    (estimate,) = document["estimates"]
    two_activations = 2 * 1024 * 512 * 4
    assert 3 * WEIGHTS + two_activations < estimate["expected"] < 3 * (3 * WEIGHTS + two_activations)


@pytest.mark.slow
def test_xla_loop_with_little_memory_gets_an_unknown_verdict(tmp_path: Path) -> None:
    compiled = LOOP.replace("{DECORATOR}", "@tf.function(jit_compile=True)")
    document = json.loads(plan(tmp_path, compiled, gpu="64MiB").stdout)
    assert document["max_batch"] is None
    assert [estimate["fits"] for estimate in document["estimates"]] == ["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decorator", "options", "why"),
    [("", (), "decorate it with @tf.function"), ("@tf.function", ("--batch", "64"), "--batch requires fit")],
)
def test_unplannable_loop_is_rejected_with_a_reason(tmp_path: Path, decorator, options, why) -> None:
    done = plan(tmp_path, LOOP.replace("{DECORATOR}", decorator), *options)
    assert done.returncode == 3
    assert why in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_single_replica_strategy_is_planned(tmp_path: Path) -> None:
    done = plan(tmp_path, UNDER_A_STRATEGY, "--batch", "64,512")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    small, large = document["estimates"]
    assert document["replicas"] == 1
    assert "--batch 128 plans each of 4 GPUs' share" in document["notes"][0]
    assert small["expected"] < large["expected"]
    assert {small["fits"], large["fits"]} == {"yes"}


def two_replicas(trains: str, compiled: str = "") -> str:
    return UNDER_TWO_REPLICAS.replace("{TRAINS}", trains).replace("{COMPILE}", compiled)


@pytest.mark.slow
def test_two_replica_plan_shows_the_memory_of_one_replica(tmp_path: Path) -> None:
    done = plan(tmp_path, two_replicas("model.fit(x, y, batch_size=1024)"), "--html", "plan.html")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["engine"], document["batch"], document["replicas"]) == ("graph", 1024, 2)
    assert document["samples_per_replica"] == 512
    assert (document["micro_batch"], document["max_batch"] % 2) == (512, 0)
    assert document["max_batch"] > 1024, "Keras leaves XLA off, so that is known"
    items = {item["name"]: item["expected"] for item in document["items"]}
    assert items["weights"] == pytest.approx(WEIGHTS, rel=0.01)
    assert items["optimizer slots"] == pytest.approx(2 * WEIGHTS, rel=0.01)
    (estimate,) = document["estimates"]
    step = estimate["expected"] - items["arrays passed to fit"]
    assert 5 * WEIGHTS < step < 8 * WEIGHTS, "with its gradients, packed and taken apart"
    assert "Each of 2 replicas gets 512 samples of the batch of 1,024" in (tmp_path / "plan.html").read_text()
    assert not any("jit_compile=True" in saver["line"] for saver in document["savers"])


@pytest.mark.slow
def test_xla_replicas_with_little_memory_get_an_unknown_verdict(tmp_path: Path) -> None:
    document = json.loads(plan(tmp_path, two_replicas("model.fit(x, y)", ", jit_compile=True"), gpu="64MiB").stdout)
    assert document["max_batch"] is None
    assert [estimate["fits"] for estimate in document["estimates"]] == ["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trains", "why"),
    [("model.train_on_batch(x, y)", "the whole batch"), (LOOP_OF_REPLICAS, "a custom loop with several replicas")],
)
def test_unplannable_replica_training_is_rejected_with_a_reason(tmp_path: Path, trains, why) -> None:
    done = plan(tmp_path, two_replicas(trains))
    assert done.returncode == 3
    assert why in done.stderr
    assert "Traceback" not in done.stderr
