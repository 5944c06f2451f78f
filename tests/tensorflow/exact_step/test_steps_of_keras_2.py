"""Models of Keras 2: without a fault the bits of plain Keras, and with one the same weights within rounding."""

from __future__ import annotations

import importlib.util
import warnings

import keras as installed
import numpy as np
import pytest
import tensorflow as tf

from oomph import testing
from oomph.exact_step.micro_batch import exactness
from oomph.exact_step.micro_batch import gradient_accumulation as accumulation
from oomph.exact_step.step import full_batch_step
from oomph.exact_step.step.division import Choice
from oomph.exact_step.step.guarded_step import GuardedStep
from oomph.keras_bridge.dialects import dialect_of

IS_BESIDE_KERAS_3 = installed.__version__.startswith("3.")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of Keras 2 about itself
    pytest.mark.skipif(IS_BESIDE_KERAS_3 and importlib.util.find_spec("tf_keras") is None, reason="needs tf_keras"),
]

if IS_BESIDE_KERAS_3 and importlib.util.find_spec("tf_keras") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tf_keras as keras
else:
    keras = tf.keras
layers, losses, optimizers = keras.layers, keras.losses, keras.optimizers
scaling = keras.mixed_precision.LossScaleOptimizer

N = 30
RANDOM = np.random.default_rng(0)
X, Y, WEIGHTS = RANDOM.normal(size=(N, 5)), RANDOM.normal(size=(N, 2)), RANDOM.uniform(0.1, 3, N)
WORDS = RANDOM.integers(1, 9, (N, 6))
for row in range(N):
    WORDS[row, 1 + row % 6 :] = 0  # from one to six valid entries


@pytest.fixture(autouse=True)
def _float64():
    before = keras.backend.floatx()
    keras.backend.set_floatx("float64")
    yield
    keras.backend.set_floatx(before)


@pytest.fixture(autouse=True)
def _refused_at_once(monkeypatch):
    """Let TensorFlow's allocator refuse without the ten seconds for which it waits first."""

    def refuse(*_):
        where = "/job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu"
        raise tf.errors.ResourceExhaustedError(
            None, None, f"OOM when allocating tensor with shape[9] and type double on {where}"
        )

    for module in (full_batch_step, accumulation):
        monkeypatch.setattr(module, "run_out_of_memory", refuse)


def sequential(*inner, optimizer=None, loss="mse", **compiled):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(7, "tanh", kernel_regularizer="l2"), *inner])
    model.add(layers.Dense(2))
    model.compile(optimizer or optimizers.Adam(1e-2), loss, **{"metrics": ["mae"], **compiled})
    return model


def masked():
    steps = [layers.Embedding(9, 4, mask_zero=True), layers.Dense(5, "tanh"), layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,), dtype="int32"), *steps])
    model.compile(optimizers.SGD(1e-2, momentum=0.9, clipnorm=0.01), "mse", metrics=["mae"])
    return model


def two_outputs():
    inputs = keras.Input((5,))
    hidden = layers.Dense(6, "relu")(inputs)
    model = keras.Model(inputs, [layers.Dense(1, name=name)(hidden) for name in "ab"])
    model.compile(optimizers.legacy.Adam(1e-2), ["mse", "mae"], loss_weights=[1, 0.3], metrics=[["mae"], ["mse"]])
    return model


class Adding(layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x**2) * 0.1)
        self.add_loss(tf.reduce_mean(tf.abs(x)))
        self.add_metric(tf.reduce_mean(x), name="mean")
        return x


class Largest(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="largest")
        self.value = self.add_weight("value", initializer="zeros")

    def update_state(self, y, p, sample_weight=None):
        self.value.assign(tf.maximum(self.value, tf.reduce_max(tf.abs(tf.cast(y, p.dtype) - p))))

    def result(self):
        return self.value


def mean_of_squares(y, p):
    if tf.reduce_sum(p) > 1e9:  # which AutoGraph must convert
        return tf.reduce_mean((y - p) ** 2) * 2
    return tf.reduce_mean((y - p) ** 2)


class Own(keras.Model):
    """A model whose train step applies the gradients itself."""

    def __init__(self):
        super().__init__()
        self.inner, self.dropped, self.outer = layers.Dense(7, "tanh"), layers.Dropout(0.3, seed=5), layers.Dense(2)

    def call(self, x, training=None):
        hidden = self.dropped(self.inner(x), training=training)
        if tf.reduce_sum(hidden) > 1e9:
            hidden = hidden * 2
        return self.outer(hidden)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compiled_loss(y, predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.compiled_metrics.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}


class Taking(Own):
    """A model whose train step takes the labels out of its batch, as those of TensorFlow Recommenders do."""

    def train_step(self, data):
        features, _ = data
        y = features.pop("y")
        return super().train_step((features.pop("x"), y))


def own(kind=Own):
    model = kind()
    model(X[:1])
    model.compile(optimizers.Adam(1e-2), "mse", metrics=["mae"])
    return model


def falling():
    return optimizers.Adam(optimizers.schedules.ExponentialDecay(1e-2, 1, 0.5))


CASES = {
    "sample weights": (sequential, (X, Y, WEIGHTS)),
    "a schedule, and a sum": (lambda: sequential(optimizer=falling(), loss=losses.MeanSquaredError("sum")), (X, Y)),
    "a mask": (masked, (WORDS, RANDOM.normal(size=(N, 6, 1)))),
    "two outputs, and a legacy optimizer": (two_outputs, (X, (Y[:, :1], Y[:, 1:]))),
    "losses and metrics of all kinds": (
        lambda: sequential(Adding(), loss=mean_of_squares, metrics=[Largest(), "mse"]),
        (X, Y),
    ),
    "draws inside kernels": (lambda: sequential(layers.Dropout(0.3), layers.GaussianNoise(0.1)), (X, Y)),
    "a train step of its own": (own, (X, Y)),
    "labels taken out of the batch": (lambda: own(Taking), ({"x": X, "y": Y}, Y)),
    "a scaled loss": (lambda: sequential(optimizer=scaling(optimizers.Adam(1e-2))), (X, Y)),
    "a scaled loss, and a legacy optimizer": (
        lambda: sequential(optimizer=scaling(optimizers.legacy.Adam(1e-2))),
        (X, Y),
    ),
    "XLA": (lambda: sequential(jit_compile=True), (X, Y, WEIGHTS)),
    "no graph": (lambda: sequential(run_eagerly=True), (X, Y)),
}


class Watch:
    """Records what a step reports."""

    compares_batches = False

    def __init__(self):
        self.verdicts, self.recovered_with, self.errors = [], [], []

    def before_step(self, step, iterator):
        pass

    def after_step(self):
        pass

    def failed(self, failure):
        pass

    def recovered(self, recovery):
        self.recovered_with.append(recovery.micro_batch)

    def probed(self, promise, finding):
        self.verdicts.append(promise.kind)

    def not_recoverable(self, error, phase, reason, begin):
        raise error

    def guard_broken(self, error):
        self.errors.append(error)


def trained(make, data, guarded=True):
    """Return the model, what it recorded, its variables and what its fit reported."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    model, watch = make(), Watch()
    keras_of_model = dialect_of(model)
    if guarded:
        promise = exactness.promise_before_tracing(model)
        assert promise.kind != exactness.RESTART_ONLY
        step, plain = keras_of_model.step_of(model, "train_step"), model.make_train_function()
        model.train_function = GuardedStep(model, step, plain, lambda: watch, promise, Choice())
    x, y, *weights = data
    history = model.fit(x, y, N, 3, verbose=0, sample_weight=weights[0] if weights else None).history
    assert watch.errors == []
    assert int(model._train_counter) == 3
    return model, watch, [*model.weights, *keras_of_model.variables_of(model.optimizer)], history


SLOW = ("XLA", "no graph", "a scaled loss, and a legacy optimizer")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)
def test_guarded_fit_equals_plain_keras_2(name):
    make, data = CASES[name]
    _, _, plain, expected = trained(make, data, guarded=False)
    plain = [variable.numpy() for variable in plain]
    _, _, undisturbed, history = trained(make, data)
    assert history == expected
    for one, other in zip(undisturbed, plain, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)
    with testing.injecting(testing.OutOfMemory(samples=13, after=1)):
        _, watch, divided, history = trained(make, data)
    assert (watch.verdicts, watch.recovered_with) == (["exact"], [6])
    for one, other in zip(divided, plain, strict=True):
        np.testing.assert_allclose(one.numpy(), other, 1e-12, 1e-13)
    for key, values in expected.items():
        np.testing.assert_allclose(history[key], values, 1e-12, 1e-13)


def test_batch_normalization_is_approximate():
    with testing.injecting(testing.OutOfMemory(samples=13, after=1)):
        _, watch, _, _ = trained(lambda: sequential(layers.BatchNormalization()), (X, Y))
    assert watch.verdicts == ["approximate"]


def test_several_steps_in_an_execution_are_not_divided():
    promise = exactness.promise_before_tracing(sequential(steps_per_execution=2))
    assert (promise.kind, promise.reason) == (exactness.RESTART_ONLY, "steps_per_execution in Keras 2")


def test_model_in_the_scope_of_a_strategy_is_not_divided():
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        promise = exactness.promise_before_tracing(sequential())
    assert (promise.kind, promise.reason) == (exactness.RESTART_ONLY, "OneDeviceStrategy in Keras 2")


def test_trace_of_a_micro_batch_leaves_the_seeds_of_layers_as_they_were():
    with testing.injecting(testing.OutOfMemory(samples=13, after=1)):
        divided, *_ = trained(own, (X, Y))
    plain, *_ = trained(own, (X, Y), guarded=False)
    seeds = [layer._random_generator._seed for layer in (divided.dropped, plain.dropped)]
    assert seeds[0] == seeds[1] > 5
