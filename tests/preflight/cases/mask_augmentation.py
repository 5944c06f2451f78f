"""The image is flipped at random but its mask is not, so half of the masks do not belong to their image."""

# finds: targets-not-moved

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(33)
rng = np.random.default_rng(33)
n, size = 360, 24
images = rng.normal(0.3, 0.08, (n, size, size, 1))
masks = np.zeros((n, size, size, 1), "float32")
for k in range(n):
    r, c, h, w = rng.integers(1, 13), rng.integers(1, 13), rng.integers(7, 11), rng.integers(7, 11)
    images[k, r:r + h, c:c + w] += 0.4
    masks[k, r:r + h, c:c + w] = 1
images = np.clip(images, 0, 1).astype("float32")

def augment(image, mask):
    flip = tf.random.uniform(()) < 0.5
    image = tf.cond(flip, lambda: tf.image.flip_left_right(image), lambda: image)
    mask = tf.identity(mask)  # WRONG
    mask = tf.cond(flip, lambda: tf.image.flip_left_right(mask), lambda: mask)  # RIGHT
    return image, mask

train = tf.data.Dataset.from_tensor_slices((images[:300], masks[:300]))
train = train.shuffle(300).map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(8).prefetch(2)
val = tf.data.Dataset.from_tensor_slices((images[300:], masks[300:])).batch(8)

model = keras.Sequential([
    keras.Input((size, size, 1)),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
    layers.Conv2D(1, 1, activation="sigmoid"),
])
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss="binary_crossentropy",
    metrics=[keras.metrics.BinaryIoU(target_class_ids=[1], threshold=0.5, name="iou")],
)
model.fit(train, validation_data=val, epochs=3, verbose=2)
