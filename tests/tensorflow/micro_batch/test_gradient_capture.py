"""How a step uses its optimizers: gradients are summed and applied once, or a reason says why not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.interception import NEVER_APPLIED, GradientCapture
from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.batch.sparse_slices import Origin, Piece
from oomph.keras_bridge.models import optimizers_of

N, SIZES = 8, [4, 3, 1]
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, :1] ** 2

pytestmark = pytest.mark.usefixtures("float64")


class Two(keras.Model):
    """Two layers, each with its own optimizer; subclasses define what a step does with them."""

    def __init__(self):
        super().__init__()
        self.one, self.two = keras.layers.Dense(4), keras.layers.Dense(1)
        self.second = keras.optimizers.Adam(0.05)

    def call(self, x):
        return self.two(self.one(x))

    def loss_of(self, data):
        return keras.ops.mean((self(data[0], training=True) - data[1]) ** 2)

    def train_step(self, data):
        with tf.GradientTape(persistent=True) as tape:
            loss = self.loss_of(data)
        self.update(data, tape, loss)
        return {"loss": loss}

    @classmethod
    def made(cls, **options):
        model = cls()
        model(X[:1])
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), **{"jit_compile": False, **options})
        model.second.build(model.two.trainable_variables)
        model.optimizer.build(model.one.trainable_variables if cls is Both else model.trainable_variables)
        return model


class Both(Two):
    def update(self, data, tape, loss):
        first = tape.gradient(loss, self.one.trainable_variables)
        second = tape.gradient(loss, self.two.trainable_variables)
        self.optimizer.apply(first, self.one.trainable_variables)
        self.second.apply(second, self.two.trainable_variables)


class Late(Both):
    def update(self, data, tape, loss):
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        with tf.GradientTape() as again:
            loss = self.loss_of(data)
        self.second.apply(again.gradient(loss, self.two.trainable_variables), self.two.trainable_variables)


class ReadsAfter(Two):
    def update(self, data, tape, loss):
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        tf.print("", tf.reduce_sum(self.loss_of(data)) * 0, end="", output_stream="file:///dev/null")


class Never(Two):
    def update(self, data, tape, loss):
        pass


class Reads(Two):
    """Reads its weights, but before the update."""

    def update(self, data, tape, loss):
        tf.print("", tf.reduce_sum(self.loss_of(data)) * 0, end="", output_stream="file:///dev/null")
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)


@pytest.mark.parametrize("eagerly", [False, True])
def test_two_optimizers_each_apply_their_gradients_once(guarded, eagerly):
    def make():
        keras.utils.set_random_seed(0)
        return Both.made(run_eagerly=eagerly)

    plain, ours = make(), guarded(make(), (X, Y))
    if eagerly:  # as far as the trace shows, the second result may depend on the first
        ours.take(SIZES, commit=False)
        assert ours.divided.micro_step.reason == "its second optimizer depends on weights that the first one updated"
        return
    for _ in range(3):
        plain.train_on_batch(X, Y)
        ours.take(SIZES)
    assert ours.divided.micro_step.reason == ""
    pairs = [(ours.model.weights, plain.weights), (ours.model.second.variables, plain.second.variables)]
    for one, other in [*pairs, (ours.model.optimizer.variables, plain.optimizer.variables)]:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-10, 1e-14)
    assert (int(ours.model.second.iterations.numpy()), int(ours.whole.commits.numpy())) == (3, 6)


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Late, "its second optimizer depends on weights that the first one updated"),
        (ReadsAfter, "the step uses the weights after their update"),
        (Never, NEVER_APPLIED),
        (Reads, ""),
    ],
)
@pytest.mark.parametrize("eagerly", [False, True])
def test_reason_for_not_dividing_a_step_is_found_by_tracing_it(guarded, cls, reason, eagerly):
    ours = guarded(cls.made(run_eagerly=eagerly), (X, Y))
    ours.divided.micro_step.trace(ours.batch)
    assert ours.divided.micro_step.reason == reason
    assert ours.find().obstacle == reason


def test_nothing_is_assigned_before_the_commit(guarded):
    ours = guarded(Both.made(), (X, Y))
    variables = [*ours.model.weights, *ours.model.optimizer.variables, *ours.model.second.variables]
    before = [variable.numpy().copy() for variable in variables]
    ours.take(SIZES, commit=False)
    for value, variable in zip(before, variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())
    ours.divided.commit([{}])
    assert any(np.any(value != variable.numpy()) for value, variable in zip(before, variables, strict=True))


def test_each_parts_share_scales_its_loss_or_else_its_gradients():
    scaling, plain = keras.optimizers.SGD(loss_scale_factor=8), keras.optimizers.SGD()
    applied = GradientCapture(MicroBatchSlice.of(0, 1, 4))
    variable = keras.Variable(np.ones(2))
    rows = tf.IndexedSlices(tf.ones((1, 2), tf.float64), tf.constant([1]), tf.constant([3, 2]))
    with GradientCapture.replaced([scaling, plain], lambda: applied):
        assert float(scaling.scale_loss(tf.constant(3.0, tf.float64))) == 3.0 / 4 * 8
        scaling.apply([tf.constant([4.0, 4.0], tf.float64)], [variable])
        plain.apply([tf.constant([4.0, 4.0], tf.float64), None, rows], [variable] * 3)
    assert applied.gradients[0][0].numpy().tolist() == [4, 4]
    dense, missing, sparse = applied.gradients[1]
    assert (dense.numpy().tolist(), missing, sparse.values.numpy().tolist()) == ([1, 1], None, [[0.25, 0.25]])
    assert applied.optimizers == [scaling, plain]
    assert [len(variables) for variables in applied.variables] == [1, 3]
    np.testing.assert_array_equal(variable.numpy(), [1, 1])
    assert not {"apply", "scale_loss"} & set(vars(plain))


def test_compiled_and_attribute_optimizers_of_a_model_are_each_found_once():
    model = Both.made()
    model.alias = model.second
    assert optimizers_of(model) == [model.optimizer, model.second]


@pytest.mark.parametrize("clip", [{"global_clipnorm": 0.01}, {"use_ema": True, "gradient_accumulation_steps": 2}])
def test_gradient_clipping_applies_to_the_sum_of_the_parts(as_keras, clip):
    def make():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.1, **clip), "mse", jit_compile=False)
        return model

    as_keras(make, (X, Y), SIZES)


@pytest.mark.parametrize("largest", [1.0, 1e200], ids=["finite", "infinite in one part"])
def test_loss_scaling_is_adjusted_once_per_step_from_the_summed_gradients(as_keras, largest):
    """An infinite gradient in one part skips the whole update and halves the scale once."""

    def make():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), 2.0**10, dynamic_growth_steps=2)
        model.compile(scaling, "mse", jit_compile=False)
        return model

    x = X.copy()
    x[0, 0] *= largest
    ours = as_keras(make, (x, Y), SIZES)
    assert float(ours.model.optimizer.dynamic_scale.numpy()) == (2.0**11 if largest == 1 else 2.0**8)


def test_sparse_gradients_of_an_embedding_are_applied_once(as_keras):
    def make():
        layers = [keras.layers.Embedding(5, 3), keras.layers.Flatten(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model.compile(keras.optimizers.Adam(0.1), "mse", jit_compile=False)
        return model

    as_keras(make, (np.random.default_rng(0).integers(0, 5, (N, 3)), Y), SIZES)


class OncePerWord(keras.layers.Layer):
    """Looks up each word once, and distributes the result."""

    def build(self, shape):
        self.table = self.add_weight(shape=(5, 3), name="table")

    def call(self, words):
        distinct, positions = tf.unique(tf.reshape(words, [-1]))
        found = tf.nn.embedding_lookup(self.table.value, distinct)
        return tf.reshape(tf.gather(found, positions), [-1, 3 * words.shape[1]])


@pytest.mark.parametrize("eagerly", [False, True])
def test_sparse_gradients_with_distinct_rows_stay_distinct_for_the_batch(as_keras, eagerly):
    def make():
        model = keras.Sequential([keras.Input((3,), dtype="int64"), OncePerWord(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.1, clipnorm=0.01), "mse", jit_compile=False, run_eagerly=eagerly)
        return model

    ours = as_keras(make, (np.random.default_rng(0).integers(0, 5, (N, 3)), Y), SIZES)
    assert ours.divided.micro_step.pieces == {0: (Piece(Origin.DISTINCT),)}


@pytest.mark.parametrize("eagerly", [False, True])
def test_keras_calls_in_other_threads_are_unaffected_by_a_divided_step(guarded, eagerly):
    """A user's own dataset draws and counts in a thread while the step runs in parts."""
    seen, plain = [], {}

    def work():
        keras.utils.set_random_seed(5)
        loss = keras.losses.MeanSquaredError()(np.ones((4, 2)), np.zeros((4, 2)), sample_weight=np.ones(4))
        mean = keras.metrics.Mean()
        mean.update_state(3.0)
        drawn = keras.random.normal((N, 2), seed=3)
        return float(loss), float(mean.result()), np.asarray(drawn).tolist(), len(keras.layers.Dense(1).losses)

    class Asks(keras.layers.Layer):
        def call(self, x):
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(work).result())
            return x

    plain = work()
    model = keras.Sequential([keras.Input((3,)), Asks(), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False, run_eagerly=eagerly)
    ours = guarded(model, (X, Y))
    seen.clear()
    ours.take(SIZES)
    assert seen
    assert all(each == plain for each in seen)
