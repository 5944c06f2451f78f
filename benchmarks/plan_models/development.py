"""The models that the engines of `oomph plan` were developed on. They measure nothing: see `held_out.py` beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

layers, applications = keras.layers, keras.applications
Made = tuple[keras.Model, Any, Any]


def images(batch: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((batch, size, size, 3), "float32"), np.zeros((batch,), "int64")


def application(build: Callable[..., keras.Model]) -> Callable[[int], Made]:
    def make(batch: int) -> Made:
        model = build(weights=None, input_shape=(224, 224, 3), classes=1000)
        model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
        return (model, *images(batch, 224))

    return make


def dense(batch: int) -> Made:
    hidden = [layers.Dense(1024, "relu") for _ in range(4)]
    model = keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    return model, np.zeros((batch, 784), "float32"), np.zeros((batch,), "int64")


def convolutions(batch: int) -> Made:
    parts = [keras.Input((64, 64, 3))]
    for size in (32, 64, 128):
        parts += [layers.Conv2D(size, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()]
        parts += [layers.MaxPooling2D()]
    parts += [layers.Flatten(), layers.Dropout(0.5), layers.Dense(256, "relu"), layers.Dense(10)]
    model = keras.Sequential(parts)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, jit_compile=False)
    return (model, *images(batch, 64))


def lstm(batch: int) -> Made:
    recurrent = [layers.LSTM(128, return_sequences=True), layers.LSTM(64)]
    model = keras.Sequential([keras.Input((100,)), layers.Embedding(20_000, 128), *recurrent, layers.Dense(1)])
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), jit_compile=False)
    return model, np.zeros((batch, 100), "int64"), np.zeros((batch, 1), "float32")


def transformer(batch: int) -> Made:
    inputs = keras.Input((128,), dtype="int32")
    hidden = layers.Embedding(8000, 256)(inputs)
    for _ in range(4):
        hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(4, 64)(hidden, hidden))
        fed = layers.Dense(256)(layers.Dense(1024, "gelu")(hidden))
        hidden = layers.LayerNormalization()(hidden + fed)
    model = keras.Model(inputs, layers.Dense(8000)(hidden))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model, np.zeros((batch, 128), "int32"), np.zeros((batch, 128), "int64")


def unet(batch: int) -> Made:
    hidden = inputs = keras.Input((128, 128, 3))
    skipped = []
    for size in (32, 64, 128):
        for _ in range(2):
            hidden = layers.Conv2D(size, 3, padding="same", activation="relu")(hidden)
        skipped.append(hidden)
        hidden = layers.MaxPooling2D()(hidden)
    hidden = layers.Conv2D(256, 3, padding="same", activation="relu")(hidden)
    for size, skip in zip((128, 64, 32), reversed(skipped), strict=True):
        hidden = layers.Concatenate()([layers.Conv2DTranspose(size, 2, strides=2, padding="same")(hidden), skip])
        hidden = layers.Conv2D(size, 3, padding="same", activation="relu")(hidden)
    model = keras.Model(inputs, layers.Conv2D(2, 1)(hidden))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model, images(batch, 128)[0], np.zeros((batch, 128, 128), "int64")


MODELS = {
    "dense": dense,
    "convolutions": convolutions,
    "lstm": lstm,
    "transformer": transformer,
    "unet": unet,
    "resnet50": application(applications.ResNet50),
    "mobilenet_v2": application(applications.MobileNetV2),
    "efficientnet_b0": application(applications.EfficientNetB0),
    "vgg16": application(applications.VGG16),
}
BATCHES = dict.fromkeys(MODELS, (2, 8, 32))
