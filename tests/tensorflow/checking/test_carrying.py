"""The check judges the data position, and a batch that does not fit, as a run would treat them."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402

from oomph.preflight.document import LOST, PARTLY, PROVED, UNKNOWN  # noqa: E402
from oomph.preflight.live.carrying import carried_by_fit  # noqa: E402
from oomph.protocol.reasons import because  # noqa: E402

TEXTS = tf.constant([f"w{number % 7} w{number % 5}" for number in range(64)])


def vectorized():
    layer = keras.layers.TextVectorization(output_sequence_length=4)
    layer.adapt(TEXTS)
    return tf.data.Dataset.from_tensor_slices(TEXTS).map(lambda text: (tf.cast(layer(text), tf.float32), 1.0))


def scaled():
    factor = tf.Variable(2.0)
    return plain().map(lambda x, y: (x * factor, y))


def plain():
    return tf.data.Dataset.from_tensor_slices((np.random.rand(64, 4).astype("float32"), np.ones(64, "float32")))


def in_any_order():
    options = tf.data.Options()
    options.deterministic = False
    return plain().with_options(options)


def in_python():
    def never():
        raise AssertionError("Python is not called for a position that cannot be saved")
        yield

    signature = (tf.TensorSpec((4,)), tf.TensorSpec(()))
    return tf.data.Dataset.from_generator(never, output_signature=signature)


def data_of(model, dataset):
    carried = carried_by_fit(model, {"x": dataset.batch(8)}, (np.zeros((8, 4)), np.zeros(8)))
    return next(each for each in carried if each.what == "data")


def drawn(**seed):
    return plain().map(lambda x, y: (x + tf.random.uniform((), maxval=1.0, **seed), y))


@pytest.mark.parametrize(
    ("make", "state", "why", "better"),
    [
        (lambda: vectorized().shuffle(64, seed=1), PROVED, "a saved position gave the same next batch", ""),
        (lambda: vectorized().cache().shuffle(64, seed=1), PROVED, "a saved position gave the same next batch", ""),
        (lambda: plain().shuffle(64, seed=1).cache(), PARTLY, "cache() keeps the order of a shuffle", "after cache()"),
        (scaled, PARTLY, "ReadVariableOp is stateful", "in the model instead of the data pipeline"),
        (
            lambda: drawn(seed=1),
            PARTLY,
            "(tf.random.uniform is stateful)",
            "instead of tf.random.uniform, with seed=",
        ),
        (in_any_order, PARTLY, "deterministic = False", "remove that option"),
        (in_python, PARTLY, "PyFunc is stateful", "without a Python generator"),
    ],
)
def test_pipeline_position_report_gives_reason_and_remedy(small_model, make, state, why, better):
    found = data_of(small_model(), make())
    assert (found.state, why in found.text, better in found.better) == (state, True, True), found


def test_unrepeatable_draws_are_given_the_same_reason_as_the_label(small_model):
    model, reason = small_model(), because("data-unseeded")
    try:
        tf.random.set_seed(None)
        found = data_of(model, drawn())
    finally:
        tf.random.set_seed(0)
    said = f"a resumed run gets different batches: {reason}"
    assert (found.state, found.text, found.better) == (LOST, said, reason.remedy)


def normalized_images_with_a_small_gradient():
    """Return a model and a batch in whose gradients 131,072 pixels nearly cancel, so that rounding is not small."""
    x = np.ones((32, 64, 64, 1), "float32")
    y = np.random.default_rng(0).normal(size=x.shape) * 100
    layers = [keras.layers.Conv2D(2, 1, kernel_initializer="zeros"), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.layers.Input(x.shape[1:]), *layers, keras.layers.Conv2D(1, 1)])
    model.compile("sgd", "mse")
    return model, (tf.constant(x), tf.constant((y - y.mean() + 0.004).astype("float32")))


def judged_out_of_memory(model, x, y):
    carried = carried_by_fit(model, {"x": x, "y": y}, (x, y))
    return next(each for each in carried if each.what == "out of memory")


def test_rounding_in_long_sums_is_not_reported_as_coupled_samples():
    keras.utils.set_random_seed(1)
    model, (x, y) = normalized_images_with_a_small_gradient()
    found = judged_out_of_memory(model, x, y)
    assert found.state == PARTLY, found
    assert (
        found.text == "micro-batches give about the same update: BatchNormalization sees only one micro-batch at a time"
    )


def of_pairs(y_true, y_pred):
    """Return a loss with a weak term over pairs with the same name, which occur in few samples."""
    value, name = y_true[:, :1], y_true[:, 1]
    same = tf.cast(name[:, None] == name[None, :], "float32") * (1.0 - tf.eye(tf.shape(name)[0]))
    pairs = tf.reduce_sum(same * tf.matmul(y_pred, y_pred, transpose_b=True), axis=1)
    return tf.square(value - y_pred)[:, 0] + 3e-4 * pairs


def of_neighbours(y_true, y_pred):
    """Return a loss with a weak term over neighbouring samples, which also depends on their order."""
    return tf.square(y_true[:, :1] - y_pred)[:, 0] + 3e-3 * (y_pred * tf.roll(y_pred, 1, 0))[:, 0]


@tf.custom_gradient
def clipped(x):
    return x, lambda upstream: tf.clip_by_value(upstream, -0.02, 0.02)


class Adding(keras.layers.Layer):
    """Adds a sum over samples to the loss, which grows with the batch and is not scaled like a mean."""

    def call(self, inputs):
        self.add_loss(3e-3 * tf.reduce_sum(inputs))
        return inputs


@pytest.mark.parametrize("last", [keras.layers.Identity, Adding, lambda: keras.layers.Lambda(clipped)])
@pytest.mark.parametrize("loss", [of_pairs, of_neighbours])
def test_weak_coupling_missed_with_few_samples_or_another_order_is_reported(loss, last):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1), last()])
    model.compile("sgd", loss)
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    y = np.stack([np.ones(64), np.arange(64) % 32], 1).astype("float32")
    found = judged_out_of_memory(model, tf.constant(x), tf.constant(y))
    assert (found.state, found.text.partition(":")[0]) == (LOST, "the batch is not split"), found
    assert 1e-4 <= float(found.text.partition("relative difference ")[2].partition(")")[0]) < 3e-3, (
        "so rounding was measured"
    )


def test_script_for_several_workers_is_not_called_unguarded_because_it_is_checked_alone():
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    carried = carried_by_fit(model, {"x": plain().batch(8)}, (np.zeros((8, 4)), np.zeros(8)))
    memory = next(each for each in carried if each.what == "out of memory")
    assert memory.state == UNKNOWN
    assert "--workers" in memory.text
