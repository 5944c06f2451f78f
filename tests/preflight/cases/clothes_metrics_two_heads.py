"""The model has two outputs but metrics is a list with one entry; give a dictionary (or one list per output)."""

# finds: step-fails

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(44)
rng = np.random.default_rng(44)
n = 900
colour, item = rng.integers(0, 3, n), rng.integers(0, 4, n)
img = rng.uniform(0, 0.4, (n, 16, 16, 3)).astype("float32")
for k in range(n):
    r, c = divmod(item[k], 2)
    img[k, 8 * r:8 * r + 8, 8 * c:8 * c + 8, colour[k]] += 0.5

inputs = keras.Input((16, 16, 3))
h = layers.Conv2D(16, 3, strides=2, activation="relu")(inputs)
h = layers.Flatten()(h)
h = layers.Dense(48, activation="relu")(h)
out_colour = layers.Dense(3, activation="softmax", name="colour")(h)
out_item = layers.Dense(4, activation="softmax", name="item")(h)
model = keras.Model(inputs, {"colour": out_colour, "item": out_item})

metrics = ["accuracy"]  # WRONG
metrics = {"colour": ["accuracy"], "item": ["accuracy"]}  # RIGHT
model.compile(
    optimizer=keras.optimizers.Adam(0.002),
    loss={"colour": "sparse_categorical_crossentropy", "item": "sparse_categorical_crossentropy"},
    metrics=metrics,
)
model.fit(img[:700], {"colour": colour[:700], "item": item[:700]}, epochs=3, batch_size=25,
          validation_data=(img[700:], {"colour": colour[700:], "item": item[700:]}), verbose=2)
print("val", model.evaluate(img[700:], {"colour": colour[700:], "item": item[700:]}, return_dict=True, verbose=0))
