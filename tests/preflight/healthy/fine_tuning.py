"""Transfer learning: a frozen backbone with its own preprocessing, and a new head on logits."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
images = rng.integers(0, 256, (64, 96, 96, 3)).astype("uint8")
labels = rng.integers(0, 2, 64)
train = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(64).batch(16).prefetch(tf.data.AUTOTUNE)
base = keras.applications.MobileNetV2(weights=None, input_shape=(96, 96, 3), include_top=False, alpha=0.35)
base.trainable = False
inputs = keras.Input(shape=(96, 96, 3))
x = keras.layers.RandomFlip("horizontal")(inputs)
x = keras.layers.Rescaling(scale=1 / 127.5, offset=-1)(x)
x = base(x, training=False)
x = keras.layers.GlobalAveragePooling2D()(x)
x = keras.layers.Dropout(0.2)(x)
outputs = keras.layers.Dense(1)(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
)
model.fit(train, epochs=2)
