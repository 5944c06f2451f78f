"""The trainings of `make exactness`: each a small Keras script as a user writes it, without any use of oomph.

    python benchmarks/exactness_cases.py loss-sum --dtype float64 --jit off --out trained.npz [--reorder]
    python benchmarks/exactness_cases.py loss-sum --dtype float64,float32 --jit off,on --out '{dtype}-{jit}-{order}.npz'
    python benchmarks/exactness_cases.py --list

The file holds every weight, every optimizer variable, and what fit, evaluate and predict returned. `--reorder` trains
on the same batches with the samples inside each batch in another order; `--reorder=also` does that after the plain
training, and trains cases of half precision in full precision too. Most cases have few weights and wide activations, so
that the batch takes most of the memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, losses, ops, optimizers, regularizers

SEED = 5
FEATURES, CLASSES, WIDTH = 16, 6, 512
WORDS, LENGTH = 50, 12


@dataclass(frozen=True)
class Setting:
    """How a case is to be trained."""

    dtype: str
    jit: bool
    order: str
    batch: int
    ragged: float

    @property
    def samples(self) -> int:
        """Four whole batches, and one that is ragged."""
        return 4 * self.batch + (max(7, round(self.ragged * self.batch)) if self.ragged else 0)

    def in_batches(self, *arrays: Any) -> tuple[Any, ...]:
        """The arrays as they are, or with the samples inside each batch in another order, the same for all of them."""
        order = np.concatenate([self._order(start, len(arrays[0])) for start in range(0, len(arrays[0]), self.batch)])
        return tuple(array[order] for array in arrays)

    def _order(self, start: int, end: int) -> Any:
        indices = np.arange(start, min(start + self.batch, end))
        return np.random.default_rng(start).permutation(indices) if self.order == "reordered" else indices


@dataclass
class Trained:
    """The trained model, what fit, evaluate and predict returned, and optimizers beside the model's own."""

    model: keras.Model
    figures: dict[str, Any]
    optimizers: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A training, and what the benchmark has to know about it."""

    name: str
    what: str
    train: Callable[[Setting], Trained]
    batch: int = 2048
    ragged: float = 0.7  # size of the last batch of an epoch, as a share of a full one; 0: there is none
    reorder: bool = True  # False: each sample gets random numbers by its place, or the data are shuffled by Keras
    dtypes: tuple[str, ...] = ("float64", "float32")
    jits: tuple[str, ...] = ("off", "on")
    oom_jit: bool = False  # also run out of memory under XLA
    outside_fit: bool = False  # memory runs out in evaluate or predict, not in a training step
    must_refuse: bool = False  # no split into micro-batches gives the update of the batch
    needs: str = ""  # a package that may not be installed
    policy: str = ""  # computes in half precision, under this policy; the order "full" omits it
    devices: int = 1


CASES: dict[str, Case] = {}


def case(
    what: str, into: dict[str, Case] = CASES, **facts: Any
) -> Callable[[Callable[[Setting], Trained]], Callable[[Setting], Trained]]:
    """Enters a function into the list of cases, under its own name."""

    def enter(train: Callable[[Setting], Trained]) -> Callable[[Setting], Trained]:
        name = train.__name__.replace("_", "-")
        into[name] = Case(name, what, train, **facts)
        return train

    return enter


# Data ----------------------------------------------------------------------------------------------------------------


def customers(s: Setting, samples: int | None = None, seed: int = 1) -> tuple[Any, Any]:
    """A table of numbers, and a class that depends on them."""
    truth = np.random.default_rng(0).standard_normal((FEATURES, CLASSES))
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((samples or s.samples, FEATURES)).astype(s.dtype)
    y = np.argmax(x @ truth + generator.standard_normal((len(x), CLASSES)), axis=1)
    return x, y


def importance(s: Setting) -> Any:
    """A weight for each sample; every ninth does not count at all."""
    weights = np.random.default_rng(2).uniform(0.2, 3.0, s.samples).astype(s.dtype)
    weights[::9] = 0
    return weights


def sentences(s: Setting) -> tuple[Any, Any]:
    """Sequences of words, of different lengths, zeros behind them; and a tag for each word."""
    generator = np.random.default_rng(3)
    words = generator.integers(1, WORDS, (s.samples, LENGTH))
    words[np.arange(LENGTH) >= generator.integers(3, LENGTH + 1, s.samples)[:, None]] = 0
    return words, (words * 7 + np.roll(words, 1, axis=1)) % CLASSES


def pictures(s: Setting) -> tuple[Any, Any]:
    """Noisy pictures with a bright stripe; its place is the class."""
    generator = np.random.default_rng(4)
    y = generator.integers(0, CLASSES, s.samples)
    x = generator.standard_normal((s.samples, 12, 12, 1)) * 0.3
    x[np.arange(s.samples), 2 * y] += 1
    return x.astype(s.dtype), y


# Models --------------------------------------------------------------------------------------------------------------


def hidden(**last: Any) -> list[Any]:
    """Two wide layers with a narrow one between them."""
    return [
        layers.Dense(WIDTH, activation="gelu"),
        layers.Dense(FEATURES),
        layers.Dense(WIDTH, activation="gelu", **last),
    ]


def classifier(*extra: Any, outputs: int = CLASSES) -> keras.Model:
    """The network most cases train; extra layers come before the last one."""
    return keras.Sequential([keras.Input((FEATURES,)), *hidden(), *extra, layers.Dense(outputs)])


def crossentropy(**options: Any) -> Any:
    return losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def one_hot(y: Any, dtype: str) -> Any:
    return np.eye(CLASSES, dtype=dtype)[y]


def fit(s: Setting, model: keras.Model, x: Any, y: Any, **options: Any) -> Trained:
    """The call most scripts make."""
    options = {"epochs": 2, "shuffle": False, "verbose": 0, "batch_size": s.batch, **options}
    return Trained(model, dict(model.fit(x, y, **options).history))


def fit_classifier(s: Setting, model: keras.Model, loss: Any, optimizer: Any = None, **options: Any) -> Trained:
    """Compile and fit on the table of customers."""
    model.compile(optimizer or optimizers.Adam(1e-3), loss, metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*customers(s)), **options)


# Losses and their reductions -----------------------------------------------------------------------------------------


@case("reduction sum_over_batch_size", oom_jit=True)
def loss_mean(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(), epochs=3)


@case("reduction mean_with_sample_weight, sample weights", oom_jit=True)
def loss_mean_with_sample_weight(s: Setting) -> Trained:
    model = classifier()
    loss = crossentropy(reduction="mean_with_sample_weight")
    model.compile(optimizers.Adam(1e-3), loss, weighted_metrics=["accuracy"], jit_compile=s.jit)
    x, y, weights = s.in_batches(*customers(s), importance(s))
    return fit(s, model, x, y, sample_weight=weights)


@case("reduction sum")
def loss_sum(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(reduction="sum"), optimizers.SGD(1e-5, momentum=0.9))


@case("reduction sum, sample weights")
def loss_sum_weighted(s: Setting) -> Trained:
    model = classifier()
    model.compile(optimizers.SGD(1e-5, momentum=0.9), crossentropy(reduction="sum"), jit_compile=s.jit)
    x, y, weights = s.in_batches(*customers(s), importance(s))
    return fit(s, model, x, y, sample_weight=weights)


@case("reduction none")
def loss_none(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(reduction="none"), optimizers.SGD(1e-5, momentum=0.9))


@case("sample_weight", oom_jit=True)
def sample_weight(s: Setting) -> Trained:
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], weighted_metrics=["accuracy"], jit_compile=s.jit)
    x, y, weights = s.in_batches(*customers(s), importance(s))
    return fit(s, model, x, y, sample_weight=weights)


@case("class_weight")
def class_weight(s: Setting) -> Trained:
    weights = {number: 0.5 + number / 3 for number in range(CLASSES)}
    return fit_classifier(s, classifier(), crossentropy(), class_weight=weights)


# Masks ---------------------------------------------------------------------------------------------------------------


def tagger() -> keras.Model:
    """A tag for each word; the padding is masked."""
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(WORDS, 16, mask_zero=True),
            layers.LSTM(16, return_sequences=True),
            layers.Dense(WIDTH, activation="gelu"),
            layers.Dense(CLASSES),
        ]
    )


@case("mask: Embedding, LSTM, a loss for each time step", batch=384)
def mask_embedding(s: Setting) -> Trained:
    model = tagger()
    model.compile(optimizers.Adam(3e-3), crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*sentences(s)))


@case("mask: the same, mean_with_sample_weight", batch=384, jits=("off",))
def mask_mean_with_sample_weight(s: Setting) -> Trained:
    model = tagger()
    loss = crossentropy(reduction="mean_with_sample_weight")
    model.compile(optimizers.Adam(3e-3), loss, jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*sentences(s)))


@case("mask: Masking, series of different lengths", batch=384)
def mask_masking(s: Setting) -> Trained:
    series = np.sin(sentences(s)[0]).astype(s.dtype)[..., None]
    target = np.cumsum(series, axis=1)
    model = keras.Sequential(
        [
            keras.Input((LENGTH, 1)),
            layers.Masking(0.0),
            layers.GRU(16, return_sequences=True),
            layers.Dense(WIDTH, activation="gelu"),
            layers.Dense(1),
        ]
    )
    model.compile(optimizers.Adam(3e-3), "mse", metrics=["mae"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(series, target))


@case("mask: used up by the LSTM's last state", batch=384, jits=("off",))
def mask_last_state(s: Setting) -> Trained:
    words, tags = sentences(s)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(WORDS, 16, mask_zero=True),
            layers.Dense(WIDTH, activation="gelu"),
            layers.LSTM(16),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(optimizers.Adam(3e-3), crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(words, tags[:, 0]))


# Several terms in the loss -------------------------------------------------------------------------------------------


@case("several outputs, loss_weights, a reduction and metrics each", oom_jit=True)
def multi_output(s: Setting) -> Trained:
    x, y = customers(s)
    size, flag = np.sum(x[:, :4] ** 2, axis=1, keepdims=True), (y > 2).astype(s.dtype)[:, None]
    inputs = features = keras.Input((FEATURES,))
    for layer in hidden():
        features = layer(features)
    kind = layers.Dense(CLASSES, name="kind")(features)
    amount = layers.Dense(1, name="amount")(features)
    chance = layers.Dense(1, activation="sigmoid", name="chance")(features)
    model = keras.Model(inputs, {"kind": kind, "amount": amount, "chance": chance})
    model.compile(
        optimizers.Adam(1e-3),
        {
            "kind": crossentropy(),
            "amount": losses.MeanSquaredError(reduction="sum"),
            "chance": losses.BinaryCrossentropy(reduction="mean_with_sample_weight"),
        },
        loss_weights={"kind": 1.0, "amount": 1e-4, "chance": 0.3},
        metrics={"kind": ["accuracy"], "amount": ["mae", "mse"], "chance": ["accuracy"]},
        jit_compile=s.jit,
    )
    x, y, size, flag = s.in_batches(x, y, size, flag)
    return fit(s, model, x, {"kind": y, "amount": size, "chance": flag})


class MeanPenalty(layers.Layer):
    """Keeps activations small: their mean square is added to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(1e-2 * ops.mean(ops.square(inputs)))
        return inputs


class SumPenalty(layers.Layer):
    """Keeps activations small: the sum of their squares is added to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(1e-6 * ops.sum(ops.square(inputs)))
        return inputs


@case("add_loss of a mean")
def add_loss_mean(s: Setting) -> Trained:
    return fit_classifier(s, classifier(MeanPenalty()), crossentropy())


@case("add_loss of a sum")
def add_loss_sum(s: Setting) -> Trained:
    return fit_classifier(s, classifier(SumPenalty()), crossentropy())


@case("activity regulariser")
def activity_regulariser(s: Setting) -> Trained:
    wide = hidden(activity_regularizer=regularizers.L2(1e-6))
    model = keras.Sequential([keras.Input((FEATURES,)), *wide, layers.Dense(CLASSES)])
    return fit_classifier(s, model, crossentropy())


@case("weight regularisers L1 and L2", oom_jit=True)
def weight_regulariser(s: Setting) -> Trained:
    wide = hidden(kernel_regularizer=regularizers.L1L2(1e-5, 1e-4), bias_regularizer=regularizers.L2(1e-3))
    model = keras.Sequential([keras.Input((FEATURES,)), *wide, layers.Dense(CLASSES)])
    return fit_classifier(s, model, crossentropy(), optimizers.SGD(0.05, momentum=0.9, nesterov=True))


# Custom losses -------------------------------------------------------------------------------------------------------


@case("own loss function, a value for each sample")
def own_loss_per_sample(s: Setting) -> Trained:
    def focal(y_true: Any, y_pred: Any) -> Any:
        plain = ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return (1 - ops.exp(-plain)) ** 2 * plain

    return fit_classifier(s, classifier(), focal)


@case("own loss function, a scalar mean")
def own_loss_mean(s: Setting) -> Trained:
    def smooth(y_true: Any, y_pred: Any) -> Any:
        y_true = ops.one_hot(ops.cast(y_true, "int32"), CLASSES, dtype=y_pred.dtype)
        return ops.mean(ops.logaddexp(y_pred, -y_pred) - y_true * y_pred)

    return fit_classifier(s, classifier(), smooth)


@case("own loss function, a scalar sum")
def own_loss_sum(s: Setting) -> Trained:
    def total(y_true: Any, y_pred: Any) -> Any:
        return ops.sum(ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True))

    return fit_classifier(s, classifier(), total, optimizers.SGD(1e-5, momentum=0.9))


class Focal(losses.Loss):
    """Samples that are right already count less."""

    def __init__(self, gamma: float = 2.0) -> None:
        super().__init__(name="focal")
        self.gamma = gamma

    def call(self, y_true: Any, y_pred: Any) -> Any:
        plain = ops.categorical_crossentropy(y_true, y_pred, from_logits=True)
        return (1 - ops.exp(-plain)) ** self.gamma * plain


@case("own Loss subclass")
def own_loss_subclass(s: Setting) -> Trained:
    model = classifier()
    model.compile(optimizers.Adam(1e-3), Focal(), metrics=["accuracy"], jit_compile=s.jit)
    x, y = s.in_batches(*customers(s))
    return fit(s, model, x, one_hot(y, s.dtype))


def in_batch_negatives(y_true: Any, y_pred: Any) -> Any:
    """How well each sample's first half finds its own second half among those of the whole batch."""
    first, second = ops.split(y_pred, 2, axis=-1)
    likeness = ops.matmul(ops.normalize(first), ops.transpose(ops.normalize(second))) / 0.1
    return -ops.diagonal(ops.log_softmax(likeness, axis=-1))


@case("contrastive loss with in-batch negatives", batch=1024, must_refuse=True)
def contrastive(s: Setting) -> Trained:
    model = classifier(outputs=32)
    model.compile(optimizers.Adam(1e-3), in_batch_negatives, jit_compile=s.jit)
    x, y = s.in_batches(*customers(s))
    return fit(s, model, x, y)


# Layers --------------------------------------------------------------------------------------------------------------


@case("Embedding with sparse gradients, global_clipnorm", batch=1024)
def sparse_embedding(s: Setting) -> Trained:
    words, tags = sentences(s)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(WORDS, 32),
            layers.Dense(WIDTH // 2, activation="gelu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(CLASSES),
        ]
    )
    optimizer = optimizers.Adam(3e-3, global_clipnorm=0.05)
    model.compile(optimizer, crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(words, tags[:, 0]))


@case("BatchNormalization")
def batch_norm(s: Setting) -> Trained:
    return fit_classifier(s, classifier(layers.BatchNormalization()), crossentropy())


@case("Dropout", reorder=False)
def dropout(s: Setting) -> Trained:
    return fit_classifier(s, classifier(layers.Dropout(0.3)), crossentropy())


@case("GaussianNoise", reorder=False)
def gaussian_noise(s: Setting) -> Trained:
    return fit_classifier(s, classifier(layers.GaussianNoise(0.1)), crossentropy())


@case("SpatialDropout", batch=384, reorder=False)
def spatial_dropout(s: Setting) -> Trained:
    words, tags = sentences(s)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(WORDS, 64),
            layers.SpatialDropout1D(0.3),
            layers.Dense(WIDTH, activation="gelu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(optimizers.Adam(3e-3), crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(words, tags[:, 0]))


class WarmUp(layers.Layer):
    """Lets its input through more and more; counts the training steps."""

    def build(self, shape: Any) -> None:
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False, name="steps")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.steps.assign_add(1)
        return inputs * (1 - 0.8**self.steps)


class Centre(layers.Layer):
    """Subtracts a moving average of what it has seen."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
        return inputs - self.mean


@case("own layer that counts steps")
def layer_counter(s: Setting) -> Trained:
    return fit_classifier(s, classifier(WarmUp()), crossentropy())


@case("own layer with a moving average")
def layer_average(s: Setting) -> Trained:
    return fit_classifier(s, classifier(Centre()), crossentropy())


@case("small convolutional network", batch=384)
def convnet(s: Setting) -> Trained:
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(optimizers.Adam(3e-3), crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*pictures(s)))


@case("small transformer", batch=256)
def transformer(s: Setting) -> Trained:
    words, tags = sentences(s)
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, 32)(inputs)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 16)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(WIDTH, activation="gelu")(x)))
    model = keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))
    model.compile(optimizers.Adam(1e-3), crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(words, tags[:, 0]))


class Network(keras.Model):
    """A network with a call of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = layers.Dense(WIDTH, activation="gelu")
        self.narrow = layers.Dense(FEATURES)
        self.second = layers.Dense(WIDTH, activation="gelu")
        self.last = layers.Dense(CLASSES)

    def call(self, inputs: Any, training: bool = False) -> Any:
        middle = self.narrow(self.first(inputs))
        return self.last(self.second(middle + inputs))


@case("model subclass with its own call")
def subclass(s: Setting) -> Trained:
    return fit_classifier(s, Network(), crossentropy())


# Precision and compile -----------------------------------------------------------------------------------------------


@case("mixed_float16, LossScaleOptimizer", dtypes=("float32",), policy="mixed_float16")
def mixed_float16(s: Setting) -> Trained:
    optimizer = optimizers.LossScaleOptimizer(optimizers.Adam(1e-3))
    return fit_classifier(s, classifier(layers.Activation("linear", dtype="float32")), crossentropy(), optimizer)


@case("mixed_bfloat16", dtypes=("float32",), policy="mixed_bfloat16")
def mixed_bfloat16(s: Setting) -> Trained:
    return fit_classifier(s, classifier(layers.Activation("linear", dtype="float32")), crossentropy())


@case("steps_per_execution=4")
def steps_per_execution(s: Setting) -> Trained:
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], steps_per_execution=4, jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*customers(s)))


@case("run_eagerly", jits=("off",))
def run_eagerly(s: Setting) -> Trained:
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], run_eagerly=True)
    return fit(s, model, *s.in_batches(*customers(s)))


@case("gradient_accumulation_steps=2")
def gradient_accumulation(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(), optimizers.Adam(1e-3, gradient_accumulation_steps=2))


@case("clipnorm")
def clipnorm(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(), optimizers.Adam(1e-3, clipnorm=0.05))


@case("clipvalue")
def clipvalue(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(), optimizers.SGD(0.1, momentum=0.9, clipvalue=0.005))


@case("use_ema")
def use_ema(s: Setting) -> Trained:
    optimizer = optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3)
    return fit_classifier(s, classifier(), crossentropy(), optimizer)


@case("MirroredStrategy on two CPU devices", jits=("off",), devices=2)
def mirrored(s: Setting) -> Trained:
    together = tf.distribute.ReductionToOneDevice()  # a second strategy's collectives on CPUs fail: a TensorFlow fault
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=together).scope():
        model = classifier()
        model.compile("adam", crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*customers(s)))


# Custom steps --------------------------------------------------------------------------------------------------------


class OwnStep(keras.Model):
    """The pattern of the Keras guide "Customizing what happens in fit()"."""

    def __init__(self) -> None:
        super().__init__()
        self.network = classifier()
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker, self.mae_metric]

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.network(inputs, training=training)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = ops.mean(losses.mean_squared_error(y, y_pred))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}


@case("own train_step, Keras' pattern")
def train_step(s: Setting) -> Trained:
    model = OwnStep()
    model.compile(optimizers.Adam(1e-3), jit_compile=s.jit)
    x, y = s.in_batches(*customers(s))
    return fit(s, model, x, one_hot(y, s.dtype))


class WideAndDeep(keras.Model):
    """Two parts, trained by an optimizer each."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = keras.Sequential([keras.Input((FEATURES,)), layers.Dense(CLASSES)]), classifier()
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def compile(self, wide_optimizer: Any, deep_optimizer: Any, loss: Any, **options: Any) -> None:
        super().compile(optimizer=deep_optimizer, loss=loss, **options)
        self.wide_optimizer = wide_optimizer

    def call(self, inputs: Any) -> Any:
        return self.wide(inputs) + self.deep(inputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x))
        wide, deep = self.wide.trainable_variables, self.deep.trainable_variables
        gradients = tape.gradient(loss, wide + deep)
        self.wide_optimizer.apply(gradients[: len(wide)], wide)
        self.optimizer.apply(gradients[len(wide) :], deep)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


@case("own train_step, two optimizers for disjoint weights")
def two_optimizers(s: Setting) -> Trained:
    model = WideAndDeep()
    wide_optimizer = optimizers.Ftrl(0.05)
    model.compile(wide_optimizer, optimizers.Adam(1e-3), crossentropy(), jit_compile=s.jit)
    trained = fit(s, model, *s.in_batches(*customers(s)))
    return Trained(model, trained.figures, [wide_optimizer])


class Gan(keras.Model):
    """The pattern of the Keras guide: the discriminator is updated before the generator looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.discriminator = classifier(outputs=1)
        self.generator = keras.Sequential([keras.Input((8,)), *hidden(), layers.Dense(FEATURES)])
        self.seeds = keras.random.SeedGenerator(SEED)
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.d_loss, self.g_loss]

    def compile(self, d_optimizer: Any, g_optimizer: Any, loss_fn: Any, **options: Any) -> None:
        super().compile(**options)
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    def train_step(self, real: Any) -> dict[str, Any]:
        count = ops.shape(real)[0]
        fake = self.generator(keras.random.normal((count, 8), dtype=real.dtype, seed=self.seeds))
        both = ops.concatenate([fake, real], axis=0)
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(both))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply(tape.gradient(d_loss, weights), weights)
        noise = keras.random.normal((count, 8), dtype=real.dtype, seed=self.seeds)
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(ops.zeros((count, 1)), self.discriminator(self.generator(noise)))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply(tape.gradient(g_loss, weights), weights)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


@case("GAN", batch=1024, reorder=False, must_refuse=True)
def gan(s: Setting) -> Trained:
    model = Gan()
    own = [optimizers.Adam(1e-3), optimizers.Adam(1e-3)]
    model.compile(*own, losses.BinaryCrossentropy(from_logits=True), jit_compile=s.jit)
    x, _ = customers(s)
    history = model.fit(x, batch_size=s.batch, epochs=2, shuffle=False, verbose=0).history
    return Trained(model, dict(history), own)


@case("train_on_batch in a loop")
def train_on_batch(s: Setting) -> Trained:
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    x, y = s.in_batches(*customers(s))
    seen = []
    for _ in range(2):
        for start in range(0, len(x), s.batch):
            seen.append(model.train_on_batch(x[start : start + s.batch], y[start : start + s.batch]))
    return Trained(model, {"loss": [loss for loss, _ in seen], "accuracy": [accuracy for _, accuracy in seen]})


# Inputs --------------------------------------------------------------------------------------------------------------


@case("NumPy arrays, shuffled by Keras", reorder=False)
def numpy_shuffled(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy(), shuffle=True)


@case("tf.data, shuffled")
def tf_data(s: Setting) -> Trained:
    def reversed_batch(x: Any, y: Any) -> Any:
        return (x[::-1], y[::-1]) if s.order == "reordered" else (x, y)

    data = tf.data.Dataset.from_tensor_slices(customers(s)).shuffle(s.samples, seed=SEED)
    data = data.batch(s.batch).map(reversed_batch).prefetch(1)
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return Trained(model, dict(model.fit(data, epochs=2, verbose=0).history))


class Batches(keras.utils.PyDataset):
    """Slices of two arrays."""

    def __init__(self, x: Any, y: Any, batch: int) -> None:
        super().__init__()
        self.x, self.y, self.batch = x, y, batch

    def __len__(self) -> int:
        return -(-len(self.x) // self.batch)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        part = slice(number * self.batch, (number + 1) * self.batch)
        return self.x[part], self.y[part]


@case("PyDataset", jits=("off",))
def py_dataset(s: Setting) -> Trained:
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    data = Batches(*s.in_batches(*customers(s)), s.batch)
    return Trained(model, dict(model.fit(data, epochs=2, shuffle=False, verbose=0).history))


@case("Python generator", jits=("off",))
def generator(s: Setting) -> Trained:
    x, y = s.in_batches(*customers(s))

    def batches() -> Iterator[tuple[Any, Any]]:
        while True:
            for start in range(0, len(x), s.batch):
                yield x[start : start + s.batch], y[start : start + s.batch]

    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    steps = -(-len(x) // s.batch)
    return Trained(model, dict(model.fit(batches(), steps_per_epoch=steps, epochs=2, verbose=0).history))


@case("pandas", jits=("off",), needs="pandas")
def pandas(s: Setting) -> Trained:
    import pandas

    x, y = s.in_batches(*customers(s))
    table = pandas.DataFrame(x, columns=[f"column {number}" for number in range(FEATURES)])
    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, table, pandas.Series(y))


@case("last batch of 7 samples", ragged=1e-9)
def ragged_last_batch(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy())


@case("no ragged batch", ragged=0, jits=("off",))
def whole_batches(s: Setting) -> Trained:
    return fit_classifier(s, classifier(), crossentropy())


# Metrics, evaluate, predict ------------------------------------------------------------------------------------------


@case("validation_data and validation metrics")
def validation(s: Setting) -> Trained:
    held_out = customers(s, samples=s.batch + 100, seed=9)
    return fit_classifier(s, classifier(), crossentropy(), validation_data=held_out)


@case("own metric that returns a scalar")
def scalar_metric(s: Setting) -> Trained:
    def spread(y_true: Any, y_pred: Any) -> Any:
        return ops.sqrt(ops.mean(ops.square(y_pred - ops.mean(y_pred, axis=0))))

    model = classifier()
    model.compile("adam", crossentropy(), metrics=["accuracy", spread], jit_compile=s.jit)
    return fit(s, model, *s.in_batches(*customers(s)))


@case("AUC, Precision and Recall")
def auc_precision(s: Setting) -> Trained:
    x, y = customers(s)
    model = classifier(outputs=1)
    metrics = [
        keras.metrics.AUC(from_logits=True, name="auc"),
        keras.metrics.Precision(thresholds=0.0, name="precision"),
        keras.metrics.Recall(thresholds=0.0, name="recall"),
    ]
    loss = losses.BinaryCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=metrics, jit_compile=s.jit)
    return fit(s, model, *s.in_batches(x, (y > 2).astype(s.dtype)[:, None]))


@case("evaluate with a large batch of its own", batch=256, outside_fit=True)
def evaluate(s: Setting) -> Trained:
    trained = fit_classifier(s, classifier(), crossentropy())
    test = customers(s, samples=4096 + 1000, seed=9)
    loss, accuracy = trained.model.evaluate(*test, batch_size=4096, verbose=0)
    return Trained(trained.model, {**trained.figures, "test_loss": loss, "test_accuracy": accuracy})


@case("predict with a large batch of its own", batch=256, outside_fit=True)
def predict(s: Setting) -> Trained:
    trained = fit_classifier(s, classifier(), crossentropy())
    x, _ = customers(s, samples=4096 + 1000, seed=9)
    return Trained(trained.model, {**trained.figures, "predict": trained.model.predict(x, batch_size=4096, verbose=0)})


# The script ----------------------------------------------------------------------------------------------------------


def check_precision(variables: Sequence[Any], dtype: str) -> None:
    """Every floating-point variable has the precision that was asked for."""
    for variable in variables:
        kind = keras.backend.standardize_dtype(variable.dtype)
        if "float" in kind and kind != dtype:
            raise TypeError(f"{variable.path} is {kind}, not {dtype}")


def memory() -> dict[str, int]:
    """Bytes in use and their peak, where the allocator counts them."""
    try:
        return dict(tf.config.experimental.get_memory_info("CPU:0"))
    except ValueError:
        return {"current": 0, "peak": 0}


def train(chosen: Case, setting: Setting) -> dict[str, Any]:
    """One training from the very beginning, as named arrays."""
    keras.backend.clear_session()
    keras.config.set_floatx(setting.dtype)
    keras.config.set_dtype_policy(setting.dtype if setting.order == "full" else chosen.policy or setting.dtype)
    keras.utils.set_random_seed(SEED)
    before = memory()["current"]
    if before:
        tf.config.experimental.reset_memory_stats("CPU:0")
    began = time.time()
    trained = chosen.train(setting)
    peak, ended = memory()["peak"], time.time()
    known = {id(v) for v in trained.model.metrics_variables}
    weights = [v for v in trained.model.variables if id(v) not in known]
    slots = [v for optimizer in [trained.model.optimizer, *trained.optimizers] for v in optimizer.variables]
    check_precision([*weights, *slots], setting.dtype)
    return {
        **{f"weight/{number:03}/{v.path.replace('/', '.')}": np.asarray(v) for number, v in enumerate(weights)},
        **{f"slot/{number:03}/{v.path.replace('/', '.')}": np.asarray(v) for number, v in enumerate(slots)},
        **{f"figure/{name}": np.asarray(value) for name, value in trained.figures.items()},
        "about/peak": np.asarray(peak - before),
        "about/began": np.asarray(began),
        "about/ended": np.asarray(ended),
    }


def listed(cases: dict[str, Case]) -> str:
    """All cases, as JSON, for the benchmark."""
    facts = []
    for chosen in cases.values():
        described = {key: value for key, value in vars(chosen).items() if key != "train"}
        present = not chosen.needs or importlib.util.find_spec(chosen.needs) is not None
        facts.append({**described, "present": present})
    return json.dumps(facts)


def main(cases: dict[str, Case] = CASES) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="?", choices=sorted(cases))
    parser.add_argument("--list", action="store_true", help="print all cases as JSON")
    parser.add_argument("--dtype", default="float32", help="float32, float64, or both with a comma between them")
    parser.add_argument("--jit", default="off", help="off, on, or both with a comma between them")
    parser.add_argument("--reorder", nargs="?", const="only", default="no", choices=("no", "only", "also"))
    parser.add_argument("--out", help="file to write; {dtype}, {jit} and {order} are replaced")
    args = parser.parse_args()
    if args.list or not args.case:
        print(listed(cases))
        return
    chosen = cases[args.case]
    if chosen.devices > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * chosen.devices)
    orders = {"no": ["plain"], "only": ["reordered"], "also": ["plain", "reordered"]}[args.reorder]
    if chosen.policy and args.reorder == "also":
        orders.append("full")
    for dtype, jit, order in itertools.product(args.dtype.split(","), args.jit.split(","), orders):
        arrays = train(chosen, Setting(dtype, jit == "on", order, chosen.batch, chosen.ragged))
        if args.out:
            np.savez(args.out.format(dtype=dtype, jit=jit, order=order), **arrays)


if __name__ == "__main__":
    main()
