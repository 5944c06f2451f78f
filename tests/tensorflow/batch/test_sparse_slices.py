"""Sparse gradients of micro-batches become those of the batch, however the tables are looked up."""

from __future__ import annotations

import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.batch.sparse_slices import JoinedSlices, Origin, Piece, TracedSlices

N, LENGTH, WORDS, SIZES = 8, 6, 20, [4, 3, 1]
SAMPLES, DISTINCT, SAME = Origin

TEXT = np.random.default_rng(0).integers(0, WORDS, (N, LENGTH))
Y = np.random.default_rng(1).normal(size=(N, 1))


# -- what the trace shows ---------------------------------------------------------------------------------------------

INDICES = {
    "words": (lambda words: tf.reshape(words, [-1]), [SAMPLES]),
    "distinct words": (lambda words: tf.unique(tf.reshape(words, [-1]))[0], [DISTINCT]),
    "distinct words, counted": (lambda words: tf.unique_with_counts(tf.reshape(words, [-1]))[0], [DISTINCT]),
    "distinct words, cast": (
        lambda words: tf.reshape(tf.cast(tf.identity(tf.unique(tf.reshape(words, [-1]))[0]), tf.int32), [-1]),
        [DISTINCT],
    ),
    "where distinct words are": (lambda words: tf.unique(tf.reshape(words, [-1]))[1], [SAMPLES]),
    "computed from distinct words": (lambda words: tf.unique(tf.reshape(words, [-1]))[0] // 2, [SAMPLES]),
    "positions": (lambda words: tf.range(LENGTH), [SAME]),
    "positions of words of any length": (lambda words: tf.range(tf.shape(words)[1]), [SAME]),
    "positions, from the end": (lambda words: tf.range(tf.shape(words)[-1]), [SAME]),
    "positions for each sample": (
        lambda words: tf.reshape(tf.tile(tf.range(LENGTH)[None], [tf.shape(words)[0], 1]), [-1]),
        [SAMPLES],
    ),
    "as many as samples": (lambda words: tf.range(tf.shape(words)[0]), [SAMPLES]),
    "as many as samples, from the end": (lambda words: tf.range(tf.shape(words)[-2]), [SAMPLES]),
    "sizes of unknown meaning": (lambda words: tf.range(tf.reduce_max(tf.shape(words))), [SAMPLES]),
    "drawn by a kernel": (lambda words: tf.random.uniform([3], 0, 9, tf.int64), [SAMPLES]),
    "words and positions": (
        lambda words: tf.concat([tf.reshape(words, [-1]), tf.range(tf.shape(words, tf.int64)[1])], 0),
        [SAMPLES, SAME],
    ),
    "nested": (
        lambda words: tf.concat([tf.constant([1], tf.int64), tf.concat([words[:, 0], words[:, 1]], 0)], 0),
        [SAME, SAMPLES, SAMPLES],
    ),
    "put together for each sample": (
        lambda words: tf.reshape(tf.concat([words, words], 1), [-1]),
        [SAMPLES],
    ),
}


@pytest.mark.parametrize("name", INDICES)
def test_each_lookup_is_traced_to_the_origin_of_its_indices(name):
    indices_of, expected = INDICES[name]
    found = []

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64)], autograph=False)
    def step(words):
        traced = TracedSlices(indices_of(words), [words])
        found.append([piece.origin for piece in traced.pieces])
        return traced.sizes(), indices_of(words)

    sizes, indices = step(TEXT)
    assert found[0] == expected
    assert int(tf.reduce_sum(sizes)) == len(indices)


def slices(rows, values):
    return tf.IndexedSlices(tf.constant(values, tf.float64)[:, None], tf.constant(rows), tf.constant([9, 1]))


def shown(found):
    return list(zip(found.indices.numpy().tolist(), found.values.numpy()[:, 0].tolist(), strict=True))


def test_each_piece_is_joined_by_its_own_rule():
    joined = JoinedSlices([Piece(SAMPLES), Piece(SAME), Piece(DISTINCT)])
    joined.keep(slices([7, 7, 0, 1, 5, 6], [1, 2, 3, 4, 5, 6]), tf.constant([2, 2, 2], tf.int64))
    joined.keep(slices([8, 0, 1, 6], [10, 20, 30, 40]), tf.constant([1, 2, 1], tf.int64))
    assert shown(joined.joined()) == [(7, 1), (7, 2), (8, 10), (0, 23), (1, 34), (5, 5), (6, 46)]


def test_joined_slices_free_their_pieces_and_accept_more():
    joined = JoinedSlices((Piece(Origin.DISTINCT),))
    first = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 1]), tf.constant([3, 1]))
    gone = weakref.ref(first.values)
    joined.keep(first)
    joined.keep(tf.IndexedSlices(tf.constant([[4.0]]), tf.constant([1]), tf.constant([3, 1])))
    del first
    assert joined.joined().values.numpy().tolist() == [[1], [6]]
    assert gone() is None
    joined.keep(tf.IndexedSlices(tf.constant([[8.0]]), tf.constant([0]), tf.constant([3, 1])))
    assert joined.joined().values.numpy().tolist() == [[9], [6]]


def test_one_piece_of_unknown_size_can_be_joined_but_not_two():
    joined = JoinedSlices([Piece(SAMPLES), Piece(SAME, 2)])
    joined.keep(slices([7, 7, 0, 1], [1, 2, 3, 4]))
    joined.keep(slices([8, 0, 1], [10, 20, 30]))
    assert shown(joined.joined()) == [(7, 1), (7, 2), (8, 10), (0, 23), (1, 34)]
    with pytest.raises(ValueError, match="in several ways"):
        JoinedSlices([Piece(SAMPLES), Piece(SAMPLES)]).keep(slices([1, 2], [1, 2]))


def test_a_shared_lookup_that_differs_between_parts_is_an_error():
    joined = JoinedSlices([Piece(SAME)])
    joined.keep(slices([0, 1], [1, 2]))
    with pytest.raises(ValueError, match="differs between micro-batches"):
        joined.keep(slices([0], [1]))


def test_joining_empty_lookups_yields_no_slices():
    joined = JoinedSlices([Piece(SAMPLES), Piece(SAME, 0)])
    for _ in range(2):
        joined.keep(slices([], []), tf.constant([0, 0], tf.int64))
    assert shown(joined.joined()) == []


# -- whole models, against Keras --------------------------------------------------------------------------------------


class Looked(keras.layers.Layer):
    """Looks up one or two tables in the way that its name describes."""

    def __init__(self, way, **options):
        super().__init__(**options)
        self.way = way
        self.words = keras.layers.Embedding(WORDS, 4, mask_zero=way == "masked")
        self.places = self.words if way in ("shared", "both", "relative") else keras.layers.Embedding(WORDS, 4)

    def build(self, shape):
        self.words.build()
        self.places.build()
        if self.way == "relative":
            self.bias = self.add_weight(shape=(2 * LENGTH, 1), name="bias")

    def call(self, text):
        return getattr(self, self.way)(text)

    def fixed(self, text):
        return self.words(text) + self.places(keras.ops.arange(LENGTH))

    masked = shared = fixed

    def one_row(self, text):
        return self.words(text) + self.places(keras.ops.expand_dims(keras.ops.arange(LENGTH), 0))

    def of_any_length(self, text):
        return self.words(text) + self.places(keras.ops.arange(0, keras.ops.shape(text)[-1], 1))

    def for_each_sample(self, text):
        return self.words(text) + self.places(keras.ops.zeros_like(text) + keras.ops.arange(LENGTH, dtype="int64"))

    def both(self, text):
        """Looks up words twice and positions twice, in one table."""
        places = self.words(keras.ops.arange(LENGTH)) + self.words(keras.ops.arange(LENGTH) + 3)
        return self.words(text) * self.words(text[:, ::-1]) + places

    def relative(self, text):
        rows = keras.ops.arange(LENGTH)
        bias = keras.ops.take(self.bias, rows[:, None] - rows[None, :] + LENGTH, axis=0)[..., 0]
        return keras.ops.matmul(keras.ops.softmax(bias), self.words(text))

    def tied(self, text):
        """Uses the table again, as a matrix."""
        seen = self.words(text) + self.places(keras.ops.arange(LENGTH))
        return keras.ops.matmul(seen, keras.ops.transpose(self.words.embeddings)) @ self.words.embeddings

    def class_token(self, text):
        first = keras.ops.broadcast_to(self.places(keras.ops.array([0])), (keras.ops.shape(text)[0], 1, 4))
        return keras.ops.concatenate([first, self.words(text)], axis=1)

    def codebook(self, text):
        """Finds the nearest code, as in a VQ-VAE."""
        seen = self.words(text)
        codes = self.places.embeddings
        nearest = keras.ops.argmin(keras.ops.sum((seen[..., None, :] - codes) ** 2, -1), -1)
        return seen + self.places(nearest)


QUICK = ("class_token", "codebook", "relative", "shared", "one_row")
WAYS = [name for name, each in vars(Looked).items() if callable(each) and name not in ("__init__", "build", "call")]


def made(way, optimizer, **compiled):
    def make():
        text = keras.Input((LENGTH,), dtype="int64")
        pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Activation("tanh")(Looked(way)(text)))
        model = keras.Model(text, keras.layers.Dense(1)(pooled))
        model.compile(optimizer(), "mse", **{"jit_compile": False, **compiled})
        return model

    return make


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("way", "eagerly"),
    [
        *((way, False) if way in QUICK else pytest.param(way, False, marks=pytest.mark.slow) for way in WAYS),
        *(
            pytest.param(way, True, marks=pytest.mark.slow) for way in WAYS if way != "both"
        ),  # "both": see the next test
    ],
)
def test_embedding_tables_train_as_in_keras_with_every_kind_of_lookup(as_keras, way, eagerly):
    make = made(way, lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.1), run_eagerly=eagerly)
    as_keras(make, (TEXT, Y), SIZES, probe=True)


@pytest.mark.usefixtures("float64")
def test_an_eager_step_with_two_lookups_of_unknown_size_is_rejected(guarded):
    ours = guarded(made("both", keras.optimizers.Adam, run_eagerly=True)(), (TEXT, Y))
    assert "an eager step looks up the same table in several ways" in ours.find().failure


CLIPPINGS = ({}, {"clipnorm": 0.05}, {"clipvalue": 0.001}, {"global_clipnorm": 0.05})


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("way", "clipping"),
    [
        *(("relative", clipping) for clipping in CLIPPINGS),
        *(pytest.param(way, c, marks=pytest.mark.slow) for way in ("fixed", "shared", "both") for c in CLIPPINGS),
    ],
    ids=str,
)
def test_sparse_gradients_are_clipped_as_in_the_whole_batch(as_keras, way, clipping):
    as_keras(made(way, lambda: keras.optimizers.Adam(0.1, **clipping)), (TEXT, Y), SIZES)


OPTIMIZERS = [
    "SGD", "RMSprop", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "Adafactor", "Nadam", "Ftrl", "Lion", "Lamb",
    "Muon",
]  # fmt: skip
ALL_KINDS = ("SGD", "Adam", "Adafactor", "Ftrl", "Muon")
"""One optimizer for each kind of state.

The kinds are: none, and slots with the weight's shape, one per row, with another shape, or only for matrices.
"""


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "name",
    [
        name if name in ALL_KINDS else pytest.param(name, marks=pytest.mark.slow)
        for name in OPTIMIZERS
        if hasattr(keras.optimizers, name)  # depending on the version
    ],
)
def test_every_keras_optimizer_trains_lookups_as_in_keras(as_keras, name):
    as_keras(made("both", lambda: getattr(keras.optimizers, name)(0.01)), (TEXT, Y), SIZES)


@pytest.mark.usefixtures("float64")
def test_a_scaled_loss_trains_lookups_as_in_keras(as_keras):
    make = made("shared", lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)))
    as_keras(make, (TEXT, Y), SIZES)


@pytest.mark.usefixtures("float64")
def test_lookups_compiled_by_xla_train_as_in_keras(as_keras):
    as_keras(made("both", lambda: keras.optimizers.Adam(0.1), jit_compile=True), (TEXT, Y), SIZES, rtol=1e-9)
