"""The check judges the position in the data as a run would treat it."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402

from oomph.preflight.document import LOST, PARTLY, PROVED  # noqa: E402
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
        (in_any_order, PARTLY, "deterministic = False", "leave that option out"),
        (in_python, PARTLY, "PyFunc is stateful", "without a Python generator"),
    ],
)
def test_pipeline_position_report_gives_reason_and_remedy(small_model, make, state, why, better):
    found = data_of(small_model(), make())
    assert (found.state, why in found.text, better in found.better) == (state, True, True), found


def test_unrepeatable_draws_get_the_reason_of_the_label(small_model):
    model, reason = small_model(), because("data-unseeded")
    try:
        tf.random.set_seed(None)
        found = data_of(model, drawn())
    finally:
        tf.random.set_seed(0)
    said = f"a resumed run gets different batches: {reason}"
    assert (found.state, found.text, found.better) == (LOST, said, reason.remedy)


def of_pairs(y_true, y_pred):
    """Return a loss with a weak term of pairs with the same name, of which few samples hold none."""
    value, name = y_true[:, :1], y_true[:, 1]
    same = tf.cast(name[:, None] == name[None, :], "float32") * (1.0 - tf.eye(tf.shape(name)[0]))
    pairs = tf.reduce_sum(same * tf.matmul(y_pred, y_pred, transpose_b=True), axis=1)
    return tf.square(value - y_pred)[:, 0] + 3e-4 * pairs


def test_weak_coupling_that_few_samples_do_not_show_is_reported():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", of_pairs)
    x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    y = np.stack([np.ones(64), np.arange(64) % 32], 1).astype("float32")
    carried = carried_by_fit(model, {"x": x, "y": y}, (tf.constant(x), tf.constant(y)))
    found = next(each for each in carried if each.what == "out of memory")
    assert (found.state, found.text.partition(":")[0]) == (LOST, "the batch is not split"), found
