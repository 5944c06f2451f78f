"""Trains a small convolutional network on noisy pictures of digits, which it draws.

An ordinary training script: it knows nothing of oomph. What it prints and writes is the same whenever it is run on the
same machine, so that two runs can be compared weight by weight.
"""

from __future__ import annotations

import argparse
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SEED = 7
TRAINING_SAMPLES = 1536
TEST_SAMPLES = 256
NOISE = 0.15
ORDERS = ("forward", "reverse", "interleave")
DIGITS = """
.###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--epochs", type=int, default=15)
    add("--batch", type=int, default=256)
    add("--float64", action="store_true", help="compute in double precision, every variable included")
    add("--order", choices=ORDERS, default="forward", help="order of the samples within each batch")
    add("--out", metavar="FILE.npz", help="write the final weights and the accuracy here")
    return parser.parse_args()


def load(dtype: str) -> tuple[Any, Any, Any, Any]:
    """The digits, pixels from 0 to 1: images and labels to train with, images and labels to test with."""
    rows = [line.split() for line in DIGITS.split("\n") if line]
    shapes = [np.array([[pixel == "#" for pixel in row[digit]] for row in rows], float) for digit in range(10)]
    draw = np.random.default_rng(SEED)
    labels = draw.integers(0, 10, TRAINING_SAMPLES + TEST_SAMPLES)
    images = draw.normal(0, NOISE, (len(labels), 8, 8, 1))
    for image, label in zip(images[..., 0], labels, strict=True):
        top, left = draw.integers(0, 2), draw.integers(0, 4)
        image[top : top + 7, left : left + 5] += draw.uniform(0.6, 1) * shapes[label]
    images = images.clip(0, 1).astype(dtype)
    train = TRAINING_SAMPLES
    return images[:train], labels[:train], images[train:], labels[train:]


def in_order(order: str) -> Any:
    """Puts the samples of one batch in another order: the same mean gradient, summed differently."""

    def rearranged(part: tf.Tensor) -> tf.Tensor:
        return part[::-1] if order == "reverse" else tf.concat([part[::2], part[1::2]], axis=0)

    return lambda images, labels: (rearranged(images), rearranged(labels))


def pipeline(images: Any, labels: Any, batch: int, order: str) -> tf.data.Dataset:
    """The training data in batches, shuffled anew, but reproducibly, in every epoch."""
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(images), seed=SEED).batch(batch, drop_remainder=True)
    if order != "forward":
        data = data.map(in_order(order))
    return data.prefetch(1)


def convolution(images: Any, channels: int) -> Any:
    """A 3 × 3 convolution, as nine shifted copies of the images and a dense layer over them.

    Written out because TensorFlow's own takes, on a CPU, as much memory beside the batch as the processor has cache;
    like this, the memory that a batch needs is the same on every machine.
    """
    layers = keras.layers
    padded = layers.ZeroPadding2D(1)(images)
    shifted = [layers.Cropping2D(((y, 2 - y), (x, 2 - x)))(padded) for y in range(3) for x in range(3)]
    return layers.Dense(channels, activation="tanh")(layers.Concatenate()(shifted))


def build() -> keras.Model:
    """Few weights, large activations: what does not fit is the batch."""
    layers = keras.layers
    images = features = keras.Input((8, 8, 1))
    features = convolution(features, 16)
    features = convolution(features, 32)
    features = layers.AveragePooling2D(2)(features)
    features = convolution(features, 32)
    model = keras.Model(images, layers.Dense(10)(layers.Flatten()(features)))
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def check_precision(model: keras.Model, dtype: str) -> None:
    """Every floating-point variable of the model and its optimizer has the precision that was asked for."""
    model.optimizer.build(model.trainable_variables)
    for variable in [*model.variables, *model.optimizer.variables]:
        kind = keras.backend.standardize_dtype(variable.dtype)
        if "float" in kind and kind != dtype:
            raise TypeError(f"{variable.path} is {kind}, not {dtype}")


class EpochLines(keras.callbacks.Callback):
    """Prints one line for each epoch."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Say how the epoch went."""
        figures = "  ".join(f"{name} {value:.4f}" for name, value in (logs or {}).items())
        print(f"epoch {epoch + 1:2d}  {figures}", flush=True)


def main() -> None:
    """Train, test, and write what came of it."""
    args = parse_arguments()
    dtype = "float64" if args.float64 else "float32"
    keras.backend.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()

    images, labels, test_images, test_labels = load(dtype)
    model = build()
    check_precision(model, dtype)
    data = pipeline(images, labels, args.batch, args.order)
    model.fit(data, epochs=args.epochs, verbose=0, callbacks=[EpochLines()])
    _, accuracy = model.evaluate(test_images, test_labels, batch_size=32, verbose=0)
    print(f"test accuracy {accuracy:.4f}")
    if args.out:
        weights = {
            f"{number:02d}.{v.path.replace('/', '.')}": v.numpy() for number, v in enumerate(model.trainable_variables)
        }
        np.savez(args.out, accuracy=accuracy, **weights)


if __name__ == "__main__":
    main()
