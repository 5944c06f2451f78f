"""Trains under MultiWorkerMirroredStrategy, each case twice: by `fit`, and by a loop as TensorFlow's guides show it.

Usage: workers.py OUT [two] CASE ..., in every worker, with TF_CONFIG set. With "two", each worker has two replicas.
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

OUT, *CASES = sys.argv[1:]
if "two" in CASES:
    CASES.remove("two")
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    # TensorFlow gives a worker several replicas only if it has several GPUs.
    CollectiveAllReduceExtended._initialize_local_devices = lambda self, resolver, worker: (
        (f"{worker}/device:CPU:0", f"{worker}/device:CPU:1"),
        "CPU",
    )
strategy = tf.distribute.MultiWorkerMirroredStrategy()
RANK = strategy.cluster_resolver.task_id
# Keras 3.5 adds up what each replica computes of its part, and newer versions take the mean.
SHARES = strategy.num_replicas_in_sync if hasattr(keras.src.losses.loss, "scale_loss_for_distribution") else 1
BATCH, EPOCHS, FEATURES = 8, 3, 5
keras.config.set_floatx("float64")
found: dict[str, np.ndarray] = {}


def samples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, FEATURES))
    return x, np.tanh(x[:, :1]) + rng.normal(size=(count, 1)) / 8


def pipeline(*arrays: np.ndarray, shard: str = "DATA", batch: int = BATCH) -> tf.data.Dataset:
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[shard]
    return tf.data.Dataset.from_tensor_slices(arrays).batch(batch).with_options(options)


def created(is_built: bool = True, **compiled) -> keras.Model:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = [keras.Input((FEATURES,))] if is_built else []
        model = keras.Sequential([*inputs, keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), "mse", **compiled)
    return model


def outputs(model: keras.Model, x: np.ndarray) -> np.ndarray:
    """Compute the outputs without TensorFlow."""
    first, bias, second, last = model.get_weights()
    return np.tanh(x @ first + bias) @ second + last


def keep(case: str, how: str, model: keras.Model, **values) -> None:
    state = [*model.get_weights(), *(np.asarray(variable) for variable in model.optimizer.variables)]
    for number, value in enumerate(state):
        found[f"{case}/{how}/{number}"] = np.asarray(value)
    for name, value in values.items():
        found[f"{case}/{how}/{name}"] = np.asarray(value, np.float64)


def loop(case: str, dataset: tf.data.Dataset, steps: int | None = None) -> None:
    model = created()
    optimizer = model.optimizer
    with strategy.scope():
        optimizer.build(model.trainable_variables)

    def replica(batch):
        x, y, *weights = batch
        with tf.GradientTape() as tape:
            errors = tf.reduce_mean(tf.square(y - model(x, training=True)), axis=-1)
            if weights:
                errors *= weights[0]
            count = tf.cast(tf.size(errors), errors.dtype)
            loss = tf.math.divide_no_nan(tf.reduce_sum(errors), count) / SHARES
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return tf.reduce_sum(errors), count

    @tf.function
    def step(batch):
        return [strategy.reduce("SUM", each, axis=None) for each in strategy.run(replica, args=(batch,))]

    distributed, losses = strategy.experimental_distribute_dataset(dataset), []
    batches = iter(distributed)
    for _ in range(EPOCHS):
        epoch = (next(batches) for _ in range(steps)) if steps else distributed
        total, count = np.sum([[float(each) for each in step(batch)] for batch in epoch], axis=0)
        losses.append(total / count)
    keep(case, "loop", model, loss=losses)


def fit(case: str, data, is_built: bool = True, **arguments) -> keras.Model:
    settings = "metrics", "weighted_metrics", "steps_per_execution", "run_eagerly"
    compiled = {name: arguments.pop(name) for name in settings if name in arguments}
    model = created(is_built, **compiled)
    history = model.fit(data, epochs=EPOCHS, verbose=0, **arguments).history
    keep(case, "fit", model, **history)
    return model


def plain() -> None:
    data = pipeline(*samples(64))
    loop("plain", data)
    fit("plain", data, metrics=["mae"])


def unbuilt() -> None:
    """The model is built by fit, which must not take a batch from the iterator: it cannot be taken twice."""
    data = pipeline(*samples(64)).repeat()
    loop("unbuilt", data, steps=5)
    fit("unbuilt", data, is_built=False, steps_per_epoch=5, metrics=["mae"])


def uneven() -> None:
    """The last batch has five samples: not the same number on every replica, and one has none if there are four."""
    data = pipeline(*samples(61))
    loop("uneven", data)
    fit("uneven", data)


def own() -> None:
    """Each worker has its own data, of different length."""
    data = pipeline(*samples(16 + 16 * RANK, seed=RANK), shard="OFF")
    loop("own", data)
    fit("own", data)


def weights() -> None:
    x, y = samples(64)
    weight = np.where(y[:, 0] > 0, 3.0, 0.5)
    data = pipeline(x, y, weight)
    loop("weights", data)
    fit("weights", data, weighted_metrics=["mae"])


def classes() -> None:
    x, y = samples(64)
    y = (y > 0).astype(float)
    loop("classes", pipeline(x, y, np.where(y[:, 0] > 0, 3.0, 0.5)))
    fit("classes", pipeline(x, y), class_weight={0: 0.5, 1: 3.0})


def eagerly() -> None:
    data = pipeline(*samples(64))
    loop("eagerly", data)
    fit("eagerly", data, run_eagerly=True)


def shuffled() -> None:
    """All samples are in each batch, so that their order does not matter if every sample is seen once."""
    x, y = samples(64)
    loop("shuffled", tf.data.Dataset.from_tensor_slices((x, y)).batch(64))
    keras.utils.set_random_seed(7)
    model = created()
    keep("shuffled", "fit", model, **model.fit(x, y, batch_size=64, epochs=EPOCHS, verbose=0).history)


def by_hand() -> None:
    """Each worker passes batches of its own to `train_on_batch`."""
    x, y = samples(48, seed=RANK)
    loop("by_hand", pipeline(x, y, shard="OFF", batch=2 * BATCH))  # a batch of the two workers together
    model, losses = created(), []
    for _ in range(EPOCHS):
        steps = [model.train_on_batch(x[at : at + BATCH], y[at : at + BATCH]) for at in range(0, len(x), BATCH)]
        losses.append(np.mean(steps))
    keep("by_hand", "fit", model, loss=losses)


def validated() -> None:
    x, y = samples(13, seed=2)
    validation = pipeline(x, y)
    model = fit("validated", pipeline(*samples(64)), metrics=["mae"], validation_data=validation)
    errors = outputs(model, x) - y
    found["validated/true"] = np.array([np.mean(errors**2), np.mean(abs(errors))])
    found["validated/dataset"] = np.array(model.evaluate(validation, verbose=0))
    found["validated/arrays"] = np.array(model.evaluate(x, y, batch_size=4, verbose=0))


def predicted() -> None:
    x, _ = samples(13, seed=3)
    model = created()
    found["predicted/true"] = outputs(model, x)
    found["predicted/arrays"] = model.predict(x, batch_size=4, verbose=0)
    found["predicted/dataset"] = model.predict(pipeline(x).map(lambda x: x), verbose=0)


def several() -> None:
    """Several steps in one execution; the last one has fewer."""
    data = pipeline(*samples(48))
    loop("several", data)
    fit("several", data, steps_per_execution=4)


def written() -> None:
    """Callbacks that write, each worker to the same places."""
    callbacks = [
        keras.callbacks.ModelCheckpoint("kept/{epoch}.keras"),
        keras.callbacks.BackupAndRestore("backup", delete_checkpoint=False),
        keras.callbacks.CSVLogger("log.csv"),
        keras.callbacks.TensorBoard("board"),
    ]
    fit("written", pipeline(*samples(64)), callbacks=callbacks)
    assert (callbacks[0].filepath, callbacks[2].filename) == ("kept/{epoch}.keras", "log.csv")


def large(*last: keras.layers.Layer) -> None:
    """A batch that a worker with little memory cannot hold; the script goes on after the error."""
    keras.utils.set_random_seed(1)
    x, y = samples(2048)
    with strategy.scope():
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(4096), keras.layers.Dense(1), *last])
        model.compile("sgd", "mse")
    try:
        model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(2048), epochs=2, verbose=0)
    except tf.errors.ResourceExhaustedError:
        time.sleep(600)
    keep("large", "fit", model)


def synchronized() -> None:
    """The workers average their statistics within the step, so that none can repeat it by itself."""
    large(keras.layers.BatchNormalization(synchronized=True))


for case in CASES:
    globals()[case]()
np.savez(f"{OUT}-{RANK}.npz", **found)
