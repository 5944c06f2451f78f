"""Probes of a model, its losses and its data that do not run a step."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from oomph.preflight.facts.data import ARRAYS, Data
from oomph.preflight.facts.model import Model
from oomph.preflight.facts.training import FitFacts, Training, Trial
from oomph.preflight.live.layer_facts import last_layers, layers_of, outputs_of
from oomph.preflight.live.probes import loss_broadcasts, loss_orders, reads_ahead
from oomph.preflight.live.stages import are_shuffled_apart, moves_inputs_alone
from oomph.preflight.live.trial_steps import odd_batches
from oomph.preflight.rules.activations import probabilities_as_logits

VOCABULARY, LENGTH = 11, 8
TEXT = np.random.default_rng(0).integers(0, VOCABULARY, (16, LENGTH + 1))


def language_model(**attention):
    given = keras.Input((LENGTH,), dtype="int32")
    hidden = keras.layers.Embedding(VOCABULARY, 8)(given)
    hidden = keras.layers.MultiHeadAttention(1, 8)(hidden, hidden, **attention)
    return keras.Model(given, keras.layers.Dense(VOCABULARY)(hidden))


def test_attention_without_a_causal_mask_reads_ahead():
    assert reads_ahead(language_model(), TEXT[:, :-1], TEXT[:, 1:])
    assert not reads_ahead(language_model(use_causal_mask=True), TEXT[:, :-1], TEXT[:, 1:])


def test_a_recurrent_network_reads_ahead_only_if_bidirectional():
    layer = keras.layers.LSTM(8, return_sequences=True)
    for wrapped, ahead in ((layer, False), (keras.layers.Bidirectional(layer), True)):
        given = keras.Input((LENGTH,), dtype="int32")
        model = keras.Model(
            given, keras.layers.Dense(VOCABULARY)(wrapped(keras.layers.Embedding(VOCABULARY, 8)(given)))
        )
        assert reads_ahead(model, TEXT[:, :-1], TEXT[:, 1:]) is ahead


def test_stateful_model_is_not_tested_for_reading_ahead():
    given = keras.Input(batch_shape=(16, LENGTH), dtype="int32")
    hidden = keras.layers.LSTM(8, return_sequences=True, stateful=True)(keras.layers.Embedding(VOCABULARY, 8)(given))
    assert not reads_ahead(keras.Model(given, keras.layers.Dense(VOCABULARY)(hidden)), TEXT[:, :-1], TEXT[:, 1:])


def test_a_tagger_may_read_the_whole_sentence():
    assert not reads_ahead(language_model(), TEXT[:, :-1], TEXT[:, :-1] % 3)
    assert not reads_ahead(language_model(), TEXT[:, :-1], TEXT[:, 0])


def dice(y, p):
    return 2 * ops.sum(y * p) / (ops.sum(y) + ops.sum(p))


def dice_loss(y, p):
    return 1 - dice(y, p)


def focal_of_logits(y, p):
    return ops.mean(ops.square(ops.sigmoid(p) - y))


def r_squared(y, p):
    return 1 - ops.sum(ops.square(y - p)) / ops.sum(ops.square(y - ops.mean(y)))


def contrastive(y, p):
    return ops.mean(y * ops.square(p) + (1 - y) * ops.square(ops.maximum(1 - p, 0)))


CLASSES = np.array([0, 1] * 8, "float32")
NUMBERS = np.random.default_rng(0).normal(size=16).astype("float32")


@pytest.mark.parametrize(
    ("loss", "activation", "target", "prefers_wrong"),
    [
        (dice, "sigmoid", CLASSES, [True]),
        (dice_loss, "sigmoid", CLASSES, [False]),
        (focal_of_logits, None, CLASSES, [False]),
        (r_squared, None, NUMBERS, [True]),
        (lambda y, p: ops.mean(ops.abs(y - p)), None, NUMBERS, [False]),
        (contrastive, "sigmoid", CLASSES, []),
        ("mse", None, NUMBERS, []),
        (dice, "relu", CLASSES, []),  # the expected output is unknown
    ],
)
def test_loss_orders_show_which_targets_a_loss_prefers(loss, activation, target, prefers_wrong):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation=activation)])
    model.compile("sgd", loss)
    orders = list(loss_orders(model, outputs_of(model), target))
    assert [order.right > order.wrong for order in orders] == prefers_wrong


class Own(keras.Model):
    def __init__(self, scales=False):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(4), keras.layers.Dense(1, activation="sigmoid")
        self.scales = scales

    def call(self, x):
        found = self.out(self.hidden(x))
        return 5 * found if self.scales else found


def test_the_last_layer_of_a_model_without_a_graph_is_found():
    model = Own()
    assert last_layers(model, np.zeros((2, 3), "float32")) == [model.out]
    assert last_layers(Own(scales=True), np.zeros((2, 3), "float32")) == [None]


IMAGES, MASKS = np.zeros((8, 6, 6, 1), "float32"), np.zeros((8, 6, 6, 1), "float32")


def flips_the_image(image, mask):
    return tf.image.random_flip_left_right(image), mask


def flips_both(image, mask):
    flip = tf.random.uniform(()) < 0.5
    turned = tf.image.flip_left_right
    return tf.cond(flip, lambda: turned(image), lambda: image), tf.cond(flip, lambda: turned(mask), lambda: mask)


def brightens(image, mask):
    return tf.image.random_brightness(image, 0.2), mask


def turns_every_image(image, mask):
    return tf.image.flip_left_right(image), mask


@pytest.mark.parametrize(
    ("function", "alone"),
    [(flips_the_image, True), (flips_both, False), (brightens, False), (turns_every_image, False)],
)
def test_images_transformed_without_their_masks_are_found(function, alone):
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, MASKS)).map(function)
    assert moves_inputs_alone(dataset) is alone


def test_flipping_images_without_their_class_labels_is_accepted():
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, np.zeros(8))).map(flips_the_image)
    assert not moves_inputs_alone(dataset)


def zipped(first, second):
    return are_shuffled_apart(tf.data.Dataset.zip((first, second)).batch(2))


def test_inputs_and_targets_shuffled_separately_are_found():
    numbers = tf.data.Dataset.range(8)
    assert zipped(numbers.shuffle(8), numbers.shuffle(8))
    assert zipped(numbers.shuffle(8, seed=1), numbers.shuffle(8, seed=2))
    assert zipped(numbers.shuffle(8), numbers)
    assert not zipped(numbers.shuffle(8, seed=1), numbers.shuffle(8, seed=1))
    assert not zipped(numbers, numbers)
    assert not are_shuffled_apart(tf.data.Dataset.zip((numbers, numbers)).shuffle(8))


class Squared(keras.losses.Loss):
    def __init__(self, reshapes):
        super().__init__()
        self.reshapes = reshapes

    def call(self, y_true, y_pred):
        y_true = ops.reshape(y_true, ops.shape(y_pred)) if self.reshapes else y_true
        return ops.square(y_true - y_pred)


class Ranking(keras.losses.Loss):
    """Compares all pairs on purpose."""

    def call(self, y_true, y_pred):
        wanted = ops.sign(y_true[:, None] - y_true[None, :])
        return ops.maximum(0.0, 1 - wanted * (y_pred - ops.transpose(y_pred)))


@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        (Squared(False), NUMBERS, "(16,) - (16, 1)"),
        (Squared(False), NUMBERS[:, None], ""),
        (Squared(True), NUMBERS, ""),
        (Ranking(), NUMBERS, ""),
        (lambda y, p: ops.mean(ops.square(y - p)), NUMBERS, ""),  # Keras gives it the shape of the predictions
        ("mse", NUMBERS, ""),
    ],
)
def test_a_loss_comparing_all_targets_with_all_predictions_is_found(loss, target, expected):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", loss)
    assert loss_broadcasts(model, outputs_of(model), np.ones((16, 3), "float32"), target) == expected


@pytest.mark.parametrize(
    ("loss", "activation", "takes_logits"),
    [
        (lambda y, p: tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(y, tf.float32), p), "sigmoid", True),
        (focal_of_logits, "sigmoid", True),
        (lambda y, p: 1 - dice(y, ops.sigmoid(p)), "sigmoid", True),
        (lambda y, p: keras.losses.binary_crossentropy(y, p), "sigmoid", False),
        (lambda y, p: keras.losses.binary_crossentropy(y, p, label_smoothing=0.1), "sigmoid", False),
        (lambda y, p: ops.mean(-y * ops.log(p + 1e-7) - (1 - y) * ops.log(1 - p + 1e-7)), "sigmoid", False),
        (dice_loss, "sigmoid", False),
        (lambda y, p: ops.mean(ops.square(y - p)), "sigmoid", False),
        (lambda y, p: ops.mean(ops.abs(y - p)), "sigmoid", False),
        (lambda y, p: ops.mean(ops.maximum(0.0, 1 - (2 * y - 1) * (2 * p - 1))), "sigmoid", False),  # a hinge
        (lambda y, p: -ops.mean((2 * y - 1) * p), "sigmoid", False),
        (focal_of_logits, None, False),
    ],
)
def test_a_loss_treating_probabilities_as_logits_is_found(loss, activation, takes_logits):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation=activation)])
    model.compile("sgd", loss)
    trial = Trial(16, orders=tuple(loss_orders(model, outputs_of(model), CLASSES)))
    training = Training(Model("Sequential", (), ()), Data(ARRAYS), FitFacts(), trial=trial)
    assert bool(list(probabilities_as_logits.find(training))) == takes_logits


@pytest.mark.filterwarnings("ignore:Layer 'reshape")
def test_layers_dropping_a_mask_are_found():
    given = keras.Input((5,), dtype="int32")
    masked = keras.layers.Embedding(9, 4, mask_zero=True)(given)
    lost = keras.layers.Reshape((4, 5))(masked)
    kept = keras.layers.LSTM(3)(keras.layers.Dropout(0.1)(masked))
    model = keras.Model(given, [keras.layers.Flatten()(lost), keras.layers.Reshape((3, 1))(kept)])
    assert [layer.kind for layer in layers_of(model) if layer.loses_mask] == ["Reshape", "LSTM"]


class OfOneSize(keras.layers.Layer):
    def call(self, inputs):
        return inputs + keras.ops.zeros((8, 1))


@pytest.mark.parametrize(
    ("inputs", "layer", "samples", "held", "expected"),
    [
        (keras.Input(batch_shape=(8, 5, 3)), keras.layers.GRU(2, stateful=True), 20, None, [(4, False)]),
        (keras.Input(batch_shape=(8, 5, 3)), keras.layers.GRU(2, stateful=True), 16, 12, [(4, True)]),
        (keras.Input(batch_shape=(8, 5, 3)), keras.layers.GRU(2, stateful=True), 16, 24, []),
        (keras.Input(batch_shape=(8, 5, 3)), keras.layers.GRU(2), 20, 12, []),  # Keras accepts any size
        (keras.Input((5, 3)), OfOneSize(), 20, None, [(4, False)]),
        (keras.Input((5, 3)), keras.layers.GRU(2), 20, None, []),
    ],
)
def test_batch_sizes_the_model_cannot_process_are_found(inputs, layer, samples, held, expected):
    hidden = layer(inputs) if not isinstance(layer, OfOneSize) else layer(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile("sgd", "mse")
    batch = np.ones((8, 5, 3), "float32"), np.ones((8, 1), "float32")
    data, validation = (None if size is None else Data(ARRAYS, batch=8, samples=size) for size in (samples, held))
    found = odd_batches(model, batch, data, validation)
    assert [(each.samples, each.in_validation) for each in found] == expected
