"""Trains one small model for each kind of input and of compilation: `same.py OUT.npz`."""

import sys

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 8)).astype("float32")
Y = rng.integers(0, 3, 200)
W = rng.uniform(size=200).astype("float32")
out = {}


def net(*layers, inputs=True, jit=False, optimizer=None, **compiled):
    front = [keras.Input((8,))] if inputs else []
    model = keras.Sequential([*front, *(layers or [keras.layers.Dense(16, "relu")]), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"loss": loss, "metrics": ["accuracy"], "jit_compile": jit, **compiled}
    model.compile(optimizer or keras.optimizers.Adam(0.01), **options)
    return model


def dataset():
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(200).batch(32)


def keep(name, model, history=None):
    for index, variable in enumerate([*model.variables, *model.optimizer.variables, *model.metrics_variables]):
        out[f"{name}/v{index}"] = np.asarray(variable)
    for key, series in (history.history if history else {}).items():
        out[f"{name}/history/{key}"] = np.asarray(series)
    if history:
        out[f"{name}/epochs"] = np.asarray(history.epoch)


def generator():
    while True:
        for start in range(0, 192, 32):
            yield X[start : start + 32], Y[start : start + 32]


class Pieces(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return X[index * 40 : index * 40 + 40], Y[index * 40 : index * 40 + 40]


def fitted(model, *data, **options):
    return model, model.fit(*data, **{"epochs": 2, "batch_size": 32, "verbose": 0, **options})


def from_dataset(model, data=None, **options):
    return fitted(model, dataset() if data is None else data, batch_size=None, **options)


def one_batch_at_a_time(jit):
    model = net(jit=jit)
    for start in range(0, 160, 32):
        logs = model.train_on_batch(X[start : start + 32], Y[start : start + 32], return_dict=True)
    out[f"train_on_batch_{jit}/logs"] = np.asarray([logs["loss"], logs["accuracy"]])
    return model, None


def two_inputs():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    both = keras.layers.Dense(8, "tanh")(keras.layers.concatenate([a, b]))
    outs = {"p": keras.layers.Dense(3, name="p")(both), "q": keras.layers.Dense(1, name="q")(both)}
    model = keras.Model({"a": a, "b": b}, outs)
    losses = {"p": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "q": "mse"}
    model.compile("rmsprop", losses, metrics={"p": ["accuracy"], "q": ["mae"]}, jit_compile=False)
    return fitted(model, {"a": X[:, :4], "b": X[:, 4:]}, {"p": Y, "q": X[:, :1]})


def words(mask):
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Embedding(50, 8, mask_zero=mask), keras.layers.LSTM(8), keras.layers.Dense(3)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    return fitted(model, rng_words(), Y)


def rng_words():
    return np.random.default_rng(3).integers(0, 50, (200, 6))


class OwnStep(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(self.compute_loss(x, y, self(x)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


class CountsItsCalls(keras.layers.Layer):
    """Keeps the count in a nested list; its output depends on the count."""

    def __init__(self):
        super().__init__()
        self.log = {"calls": [0]}

    def call(self, inputs):
        self.log["calls"][0] += 1
        return inputs * (1 + 0.01 * self.log["calls"][0])


def own_step():
    model = OwnStep()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return fitted(model, X, Y)


def seeing_layers():
    return [keras.layers.Dense(16), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]


def mixed():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return fitted(net(), X, Y)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def without_a_length(jit):
    unknown = tf.data.Dataset.from_generator(
        lambda: iter([(X[:32], Y[:32]), (X[32:64], Y[32:64]), (X[64:80], Y[64:80])]),
        output_signature=(tf.TensorSpec((None, 8)), tf.TensorSpec((None,), tf.int64)),
    )
    return from_dataset(net(jit=jit), unknown, epochs=3)


CASES = {
    "numpy_False": lambda: fitted(net(jit=False), X, Y),
    "numpy_True": lambda: fitted(net(jit=True), X, Y),
    "numpy_auto": lambda: fitted(net(jit="auto"), X, Y),
    "dataset_False": lambda: from_dataset(net(jit=False)),
    "dataset_True": lambda: from_dataset(net(jit=True)),
    "dataset_auto": lambda: from_dataset(net(jit="auto")),
    "without_a_length_False": lambda: without_a_length(False),
    "without_a_length_True": lambda: without_a_length(True),
    "generator_False": lambda: from_dataset(net(), generator(), steps_per_epoch=6),
    "generator_True": lambda: from_dataset(net(jit=True), generator(), steps_per_epoch=6),
    "pydataset": lambda: from_dataset(net(), Pieces()),
    "train_on_batch_False": lambda: one_batch_at_a_time(False),
    "train_on_batch_True": lambda: one_batch_at_a_time(True),
    "unbuilt_False": lambda: fitted(net(inputs=False, jit=False), X, Y),
    "unbuilt_True": lambda: fitted(net(inputs=False, jit=True), X, Y),
    "seeing_False": lambda: fitted(net(*seeing_layers()), X, Y, validation_data=(X[:50], Y[:50])),
    "seeing_True": lambda: fitted(net(*seeing_layers(), jit=True), X, Y, validation_split=0.2),
    "weighted": lambda: fitted(net(), X, Y, sample_weight=W, validation_data=(X[:50], Y[:50], W[:50])),
    "class_weight": lambda: fitted(net(), X, Y, class_weight={0: 1.0, 1: 2.0, 2: 0.5}),
    "two_inputs": two_inputs,
    "embedding": lambda: words(False),
    "masked": lambda: words(True),
    "own_step": own_step,
    "eager": lambda: fitted(net(run_eagerly=True), X, Y, epochs=1),
    "eager_counts": lambda: fitted(net(CountsItsCalls(), run_eagerly=True), X, Y, epochs=1),
    "eager_unbuilt": lambda: fitted(net(CountsItsCalls(), inputs=False, run_eagerly=True), X, Y, epochs=1),
    "several_steps": lambda: from_dataset(net(steps_per_execution=3)),
    "accumulating": lambda: fitted(net(optimizer=keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)), X, Y),
    "averaged": lambda: fitted(net(optimizer=keras.optimizers.AdamW(0.01, use_ema=True, clipnorm=1.0)), X, Y),
    "mixed": mixed,
    "frozen": lambda: fitted(net(keras.layers.Dense(8, trainable=False)), X, Y),
    "stopping": lambda: fitted(
        net(), X, Y, epochs=6, callbacks=[keras.callbacks.EarlyStopping("loss", min_delta=9, restore_best_weights=True)]
    ),
}

for name, case in CASES.items():
    keras.utils.set_random_seed(7)
    keep(name, *case())
np.savez(sys.argv[1], **out)
