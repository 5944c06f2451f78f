"""The dice loss returns the dice coefficient itself instead of 1 minus it, so training makes the overlap as small as possible."""

# finds: loss-prefers-wrong

import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(50)
rng = np.random.default_rng(50)
n, size = 300, 24
images, masks = rng.normal(0, 0.3, (n, size, size, 1)), np.zeros((n, size, size, 1))
for k in range(n):
    r, c = rng.integers(2, 12, 2)
    masks[k, r:r + 9, c:c + 9] = 1
images = (images + masks).astype("float32")
masks = masks.astype("float32")

def dice_loss(y_true, y_pred, smooth=1.0):
    axes = (1, 2, 3)
    overlap = ops.sum(y_true * y_pred, axis=axes)
    total = ops.sum(y_true, axis=axes) + ops.sum(y_pred, axis=axes)
    dice = (2.0 * overlap + smooth) / (total + smooth)
    return dice  # WRONG
    return 1.0 - dice  # RIGHT


inputs = keras.Input((size, size, 1))
x1 = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
x2 = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x1)
x3 = layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu")(x2)
x4 = layers.Concatenate()([x1, x3])
outputs = layers.Conv2D(1, 3, padding="same", activation="sigmoid")(x4)
unet = keras.Model(inputs, outputs)
unet.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=dice_loss,
    metrics=[keras.metrics.BinaryIoU(target_class_ids=[1], threshold=0.5, name="iou")],
)
unet.fit(images[:240], masks[:240], validation_data=(images[240:], masks[240:]), epochs=3, batch_size=12, verbose=2)
