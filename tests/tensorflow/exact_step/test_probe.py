"""A probe tells steps with independent samples from those with coupled ones, by numbers rather than by names."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.exactness import EXACT, TO_BE_PROBED, Promise
from oomph.exact_step.step.division import Choice, judge
from oomph.exact_step.step.probe import ProbeFinding

N = 20
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(N, 4)), RANDOM.normal(size=(N, 1))

pytestmark = pytest.mark.usefixtures("float64")


class Centred(keras.layers.Layer):
    """Uses the batch mean, which differs in a part."""

    def call(self, x):
        return x - keras.ops.mean(x, axis=0)


class Counts(keras.layers.Layer):
    """Counts samples in its state, unknown to the parts."""

    def build(self, shape):
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, x):
        self.seen.assign_add(keras.ops.cast(keras.ops.shape(x)[0], "float64"))
        return x


class RootOfMean(keras.metrics.Mean):
    """A mean whose weight is not its samples', so that parts count double."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        keras.metrics.Mean.update_state(self, keras.ops.mean(keras.ops.abs(y_true - y_pred)) ** 0.5, 0.5)


RootOfMean.update_state.__module__ = "keras.src.metrics.test"


def contrastive(y_true, y_pred):
    """Distinguishes each sample from the others in its batch."""
    scores = keras.ops.matmul(y_pred, keras.ops.transpose(y_pred))
    return keras.losses.sparse_categorical_crossentropy(
        keras.ops.arange(keras.ops.shape(y_pred)[0]), scores, from_logits=True
    )


def zero(y_true, y_pred):
    return keras.ops.mean(0.0 * (y_true - y_pred), axis=-1)


def rows(y_true, y_pred):
    return keras.ops.mean((y_true - y_pred) ** 2, axis=-1)


def model(*layers, loss="mse", **options):
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), *layers, keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.1), loss, **{"jit_compile": False, **options})
    return made


@pytest.fixture
def find(guarded):
    """Return what a probe finds, after checking that it leaves nothing behind."""

    def found(made, batch=(X, Y)):
        ours = guarded(made, batch)
        variables = [*made.variables, *made.metrics_variables, *made.optimizer.variables]
        before = [variable.numpy().copy() for variable in variables]
        finding = ours.find()
        for value, variable in zip(before, variables, strict=True):
            np.testing.assert_array_equal(value, variable.numpy(), err_msg=variable.path)
        return finding

    return found


@pytest.mark.parametrize(
    "make",
    [
        lambda: model(loss=rows),
        lambda: model(keras.layers.Dropout(0.5), loss=rows),
        lambda: model(keras.layers.LayerNormalization(), metrics=["mae"]),
        lambda: model(run_eagerly=True),
    ],
)
def test_independent_samples_give_equal_results(find, make):
    finding = find(make())
    assert (finding.samples, finding.equal, finding.conclusive) == (N, True, True)
    assert max(finding.gradients, finding.state, finding.returned) < 1e-12 < finding.tolerance == 1e-10


@pytest.mark.parametrize("make", [lambda: model(loss=contrastive), lambda: model(Centred())])
def test_samples_that_depend_on_each_other_change_the_gradients(find, make):
    finding = find(make())
    assert finding.gradients > 0.01
    assert not finding.equal


def test_state_that_counts_samples_is_reported_by_name(find):
    finding = find(model(Counts()))
    assert finding.gradients < 1e-12
    assert finding.state == pytest.approx(1 - (14 * 14 + 6 * 6) / N / N)  # the parts' mean, weighted by their shares
    assert finding.worst.endswith("/seen")


def test_finding_mentions_the_non_additive_metric(find):
    finding = find(model(weighted_metrics=[RootOfMean(name="root")]))
    assert finding.gradients < 1e-12 < finding.tolerance < finding.state
    assert finding.worst.startswith("metric root/")


def test_a_probe_with_zero_gradients_is_inconclusive(find):
    finding = find(model(loss=zero))
    assert (finding.gradients, finding.conclusive) == (0.0, False)


def test_samples_coupled_by_the_loss_are_detected_despite_batch_normalization(find):
    alone = find(model(keras.layers.BatchNormalization(), loss=rows))
    assert (alone.normalises, alone.equal, alone.conclusive) == (True, True, True)
    both = find(model(keras.layers.BatchNormalization(), loss=contrastive))
    assert (both.normalises, both.equal) == (True, False)


def test_hidden_random_state_is_detected_before_anything_runs(find):
    class Noise(keras.layers.Layer):
        def call(self, x):
            return x + tf.random.normal(tf.shape(x), dtype=tf.float64)

    assert find(model(Noise())) == ProbeFinding(0, conclusive=False, hidden_draws=True)


def test_step_that_fails_on_part_of_the_batch_makes_the_probe_inconclusive(find):
    class Picky(keras.layers.Layer):
        def call(self, x):
            with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(x)[0], N, "only twenty")]):
                return tf.identity(x)

    finding = find(model(Picky()))
    assert finding.failure
    assert not finding.conclusive


@pytest.mark.parametrize(("size", "samples"), [(1, 0), (2, 2), (3, 3), (64, 64), (70, 64), (10000, 78), (100000, 256)])
def test_number_of_probed_samples_depends_on_the_batch_size(find, size, samples):
    finding = find(model(), (np.resize(X, (size, 4)), np.resize(Y, (size, 1))))
    assert (finding.samples, finding.conclusive) == (samples, samples > 0)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-4), ("mixed_float16", 0.05), ("mixed_bfloat16", 0.1)])
def test_probe_tolerance_depends_on_the_coarsest_type(guarded, policy, tolerance):
    keras.backend.set_floatx("float32")
    keras.config.set_dtype_policy(policy)
    finding = guarded(model(loss=rows, auto_scale_loss=False), (X.astype("float32"), Y.astype("float32"))).find()
    assert (finding.tolerance, finding.equal) == (tolerance, True)


def test_four_samples_are_probed_if_memory_allows_no_more(find, memory, needs):
    made = model(needs())
    memory.room = 13
    finding = find(made)
    assert (finding.samples, finding.equal, finding.conclusive) == (4, True, True)


def mean_of_positives(y_true, y_pred):
    positive = keras.ops.cast(y_true > 0, "float64")
    return keras.ops.sum(positive * (y_true - y_pred) ** 2) / keras.ops.sum(positive)


def test_nonfinite_gradients_in_one_part_are_judged_unequal(find):
    y = -np.ones((N, 1))
    y[:3] = 1  # the second part has none of them
    finding = find(model(loss=mean_of_positives), (X, y))
    assert not finding.equal
    assert judge(Promise(EXACT), finding, Choice()).refused


def test_loss_term_that_is_zero_for_every_probed_sample_is_inconclusive(find):
    class Rare(keras.layers.Layer):
        def call(self, x):
            self.add_loss(keras.ops.sum(keras.ops.relu(x - 50.0)))
            return x

    x = np.resize(X, (100, 4))
    x[1] = 1000.0  # not among the probed samples
    finding = find(keras_model_of(Rare()), (x, x[:, :1]))
    assert (finding.samples, finding.equal, finding.conclusive) == (64, True, False)
    assert judge(Promise(TO_BE_PROBED, "custom layer Rare"), finding, Choice()).kind != EXACT


def keras_model_of(*layers):
    made = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    return made


@pytest.mark.parametrize(
    ("of_batch", "adds_up"), [(keras.ops.mean, True), (keras.ops.sum, True), (keras.ops.std, False)]
)
@pytest.mark.parametrize("eagerly", [False, True])
def test_returned_number_that_is_neither_mean_nor_sum_is_detected(find, of_batch, adds_up, eagerly):
    class Returns(keras.Sequential):
        def train_step(self, data):
            return {**super().train_step(data), "own": of_batch(data[0] ** 2)}

    made = Returns([keras.Input((4,)), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False, run_eagerly=eagerly)
    finding = find(made)
    assert (finding.equal, finding.returned < 1e-12) == (True, adds_up)
