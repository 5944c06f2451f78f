"""What calling a model, its losses and its data shows without a step."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from oomph.tensorflow.checking.augmentation import moves_inputs_alone
from oomph.tensorflow.checking.last_layers import last_layers
from oomph.tensorflow.checking.output_facts import outputs_of
from oomph.tensorflow.checking.probes import loss_orders, reads_ahead
from oomph.tensorflow.checking.stages import are_shuffled_apart

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


def test_a_recurrent_network_does_so_only_in_both_directions():
    layer = keras.layers.LSTM(8, return_sequences=True)
    for wrapped, ahead in ((layer, False), (keras.layers.Bidirectional(layer), True)):
        given = keras.Input((LENGTH,), dtype="int32")
        model = keras.Model(
            given, keras.layers.Dense(VOCABULARY)(wrapped(keras.layers.Embedding(VOCABULARY, 8)(given)))
        )
        assert reads_ahead(model, TEXT[:, :-1], TEXT[:, 1:]) is ahead


def test_a_model_that_remembers_the_last_call_is_not_judged():
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
        (dice, "relu", CLASSES, []),  # what it should give is not known
    ],
)
def test_what_a_loss_prefers(loss, activation, target, prefers_wrong):
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


def test_the_last_layer_of_a_model_without_a_graph():
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
def test_images_that_move_without_their_masks(function, alone):
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, MASKS)).map(function)
    assert moves_inputs_alone(dataset) is alone


def test_a_class_need_not_move():
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, np.zeros(8))).map(flips_the_image)
    assert not moves_inputs_alone(dataset)


def zipped(first, second):
    return are_shuffled_apart(tf.data.Dataset.zip((first, second)).batch(2))


def test_what_is_shuffled_apart():
    numbers = tf.data.Dataset.range(8)
    assert zipped(numbers.shuffle(8), numbers.shuffle(8))
    assert zipped(numbers.shuffle(8, seed=1), numbers.shuffle(8, seed=2))
    assert zipped(numbers.shuffle(8), numbers)
    assert not zipped(numbers.shuffle(8, seed=1), numbers.shuffle(8, seed=1))
    assert not zipped(numbers, numbers)
    assert not are_shuffled_apart(tf.data.Dataset.zip((numbers, numbers)).shuffle(8))
