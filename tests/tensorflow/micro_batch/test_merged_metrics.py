"""The metrics and logs of a step in parts match those of the whole batch, for every kind of metric."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

SIZES = [4, 3, 1]
N = sum(SIZES)

pytestmark = pytest.mark.usefixtures("float64")


class Largest(keras.metrics.Metric):
    """The mean over batches of the largest error in each, which only the whole batch determines."""

    def __init__(self, name="largest"):
        super().__init__(name=name)
        self.total = self.add_variable((), "zeros", name="total")
        self.batches = self.add_variable((), "zeros", name="batches")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(keras.ops.max(keras.ops.abs(y_true - y_pred)))
        self.batches.assign_add(1.0)

    def result(self):
        return self.total / self.batches


def number(y_true, y_pred):
    return keras.ops.mean((y_true - y_pred) ** 4)


def batch(classes=1, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(N, 3)), random.normal(size=(N, classes))


def compiled(model, loss="mse", **options):
    model.compile(keras.optimizers.SGD(0.05), loss, **{"jit_compile": False, **options})
    return model


def linear(*metrics, kind="metrics", **options):
    """Return a function that creates models with their own Largest in addition to these metrics."""

    def make():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        return compiled(model, **{kind: [*metrics, Largest()]}, **options)

    return make


@pytest.mark.parametrize("eagerly", [False, True])
def test_scalar_metric_function_counts_each_batch_once(as_keras, eagerly):
    ours = as_keras(linear(number, "mae", run_eagerly=eagerly), batch(), SIZES)
    counts = {v.path: float(v.numpy()) for v in ours.model.metrics_variables if "count" in v.path}
    assert sorted(counts.values()) == [2, 2 * N, 2 * N]  # two batches; loss and rows count samples


def test_a_foreign_metric_sees_the_whole_batch_once(as_keras):
    ours = as_keras(linear(), batch(), SIZES)
    assert [float(v.numpy()) for v in ours.model.metrics_variables if "batches" in v.path] == [2]


def test_weighted_metrics_sum_their_sample_weights(as_keras):
    weights = np.random.default_rng(5).uniform(0, 9, N)
    as_keras(linear("mae", kind="weighted_metrics"), (*batch(), weights), SIZES)


def test_counting_keras_metrics_are_exact_part_by_part(as_keras):
    def make():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation="sigmoid")])
        auc = keras.metrics.AUC(num_thresholds=20, name="auc")
        metrics = [auc, keras.metrics.Precision(name="precision"), keras.metrics.R2Score(name="r2")]
        return compiled(model, "binary_crossentropy", metrics=metrics)

    x, y = batch()
    as_keras(make, (x, (y > 0).astype("float64")), SIZES)


@pytest.mark.parametrize("static", [True, False])
def test_multiple_output_losses_are_weighted_as_in_keras(guarded, static):
    def make():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((3,))
        model = keras.Model(inputs, {name: keras.layers.Dense(1, name=name)(inputs) for name in ("a", "b")})
        return compiled(model, {"a": "mse", "b": "mae"})

    x, y = batch()
    ours, plain = guarded(make(), (x, {"a": y, "b": 2 * y})), make()
    data = tf.data.Dataset.from_tensors(ours.batch)
    if not static:
        data = tf.data.Dataset.from_tensor_slices(ours.batch).batch(N)
        ours = guarded(make(), ours.batch)
        ours.whole._forms.clear()
        ours.whole.prepare(iter(data))
    plain.make_train_function()
    theirs = plain.train_function(iter(data))
    assert ours.take(SIZES) == pytest.approx({name: float(value) for name, value in theirs.items()}, rel=1e-11)
    counts = [[float(v.numpy()) for v in model.metrics_variables if "count" in v.path] for model in (ours.model, plain)]
    assert counts[0] == pytest.approx(counts[1])
    assert counts[0] == ([N, N, N] if static else [N, 1, 1])


class OwnStep(keras.Model):
    """A train step that logs its loss manually, and a tracker that it updates with a plain number."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="tracker")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((self(x, training=True) - y) ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.tracker.update_state(loss)
        return {"by_hand": loss, "doubled": 2 * self.tracker.result(), "tracker": self.tracker.result()}


def test_custom_train_step_logs_match_the_whole_batch(guarded):
    def make():
        keras.utils.set_random_seed(0)
        model = OwnStep()
        model(np.ones((1, 3)))
        return compiled(model)

    ours, plain = guarded(make(), batch()), make()
    theirs = plain.train_on_batch(*batch(), return_dict=True)
    logs = ours.take(SIZES)
    assert {name: logs[name] for name in ("by_hand", "tracker")} == pytest.approx(
        {name: float(theirs[name]) for name in ("by_hand", "tracker")}, rel=1e-11
    )
    assert float(ours.model.tracker.count.numpy()) == 1
    for one, other in zip(ours.model.weights, plain.weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-11)


def test_evaluation_in_parts_gives_equal_results_without_a_commit(guarded):
    def make():
        keras.utils.set_random_seed(0)
        return linear(number, "mae")()

    plain, model = make(), make()
    theirs = plain.test_on_batch(*batch(), return_dict=True)
    ours = guarded(model, batch(), model.test_step, trains=False)
    assert ours.take(SIZES, commit=False) == pytest.approx({k: float(v) for k, v in theirs.items()}, rel=1e-11)
    assert int(ours.whole.commits.numpy()) == 0


class Returning(keras.Sequential):
    """Tracks a few numbers that are not samples, and returns the mean of each feature."""

    def train_step(self, data):
        logs = super().train_step(data)
        self.pair.update_state([1.0, 3.0])
        return {**logs, "pair": self.pair.result(), "features": keras.ops.mean(data[0], axis=0)}


def test_static_length_vectors_are_merged_instead_of_joined(guarded):
    def make():
        keras.utils.set_random_seed(0)
        model = Returning([keras.Input((3,)), keras.layers.Dense(1)])
        model.pair = keras.metrics.Mean(name="pair")
        return compiled(model)

    (x, y), plain = (array[:6] for array in batch()), make()
    ours = guarded(make(), (x, y))
    theirs = plain.train_on_batch(x, y, return_dict=True)
    ours.divided.start(ours.batch, 6, ours.small)
    for start in (0, 3):  # as many samples as features
        ours.divided.add(start, 3)
    (logs,) = ours.divided.finish(size_is_known=True)
    np.testing.assert_allclose(logs["features"], x.mean(axis=0), 1e-12)
    assert float(logs["pair"]) == float(theirs["pair"]) == 2
    assert float(ours.model.pair.count.numpy()) == float(plain.pair.count.numpy()) == 2


class Summing(keras.Sequential):
    """Returns a sum over the samples along with its mean."""

    def train_step(self, data):
        logs = super().train_step(data)
        return {**logs, "sum": keras.ops.sum(data[0]), "mean": keras.ops.mean(data[0])}


def test_returned_sums_are_added_up_but_means_are_not(as_keras):
    def make():
        return compiled(Summing([keras.Input((3,)), keras.layers.Dense(1)]))

    ours = as_keras(make, batch(), SIZES, probe=True)
    assert sum(ours.divided.kinds().logs) == 1
