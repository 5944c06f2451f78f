"""MeanIoU compares class numbers, but it gets sigmoid probabilities, which it truncates to 0; use BinaryIoU with a threshold."""

# finds: wrong-accuracy

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(54)
rng = np.random.default_rng(54)
yy, xx = np.mgrid[0:24, 0:24]
n = 400
cy, cx, r = rng.uniform(6, 18, n), rng.uniform(6, 18, n), rng.uniform(4, 7, n)
mask = ((yy - cy[:, None, None]) ** 2 + (xx - cx[:, None, None]) ** 2 < (r ** 2)[:, None, None])
mask = mask[..., None].astype("float32")
image = (0.25 + 0.4 * mask + rng.normal(0, 0.15, mask.shape)).astype("float32")

inputs = keras.Input((24, 24, 1))
a = layers.Conv2D(12, 3, padding="same", activation="relu")(inputs)
b = layers.MaxPooling2D()(a)
b = layers.Conv2D(24, 3, padding="same", activation="relu")(b)
b = layers.UpSampling2D()(b)
c = layers.Concatenate()([a, b])
c = layers.Conv2D(12, 3, padding="same", activation="relu")(c)
outputs = layers.Conv2D(1, 1, activation="sigmoid")(c)
model = keras.Model(inputs, outputs)
iou = keras.metrics.MeanIoU(num_classes=2, name="iou")  # WRONG
iou = keras.metrics.BinaryIoU(target_class_ids=[0, 1], threshold=0.5, name="iou")  # RIGHT
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="binary_crossentropy", metrics=[iou])
model.fit(image[:320], mask[:320], epochs=3, batch_size=16, validation_data=(image[320:], mask[320:]), verbose=2)
print("val", model.evaluate(image[320:], mask[320:], return_dict=True, verbose=0))
