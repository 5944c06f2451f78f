"""The training images are divided by 255 but the validation images are not, so the validation results are meaningless."""

# finds: validation-scaled-differently

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(28)
rng = np.random.default_rng(28)
daytime = rng.integers(0, 3, 900)
bright = np.array([60, 110, 160])[daytime] + rng.normal(0, 8, 900)
images = bright[:, None, None, None] + rng.normal(0, 30, (900, 18, 18, 1))
images[:, :6] += 40
images = np.clip(images, 0, 255).astype("uint8")
x_train, x_val = images[:700], images[700:]
y_train, y_val = daytime[:700], daytime[700:]

x_train = x_train.astype("float32") / 255
x_val = x_val.astype("float32")  # WRONG
x_val = x_val.astype("float32") / 255  # RIGHT

model = keras.Sequential([
    keras.Input((18, 18, 1)),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(16, 3, activation="relu"),
    layers.Flatten(),
    layers.Dropout(0.3),
    layers.Dense(3, activation="softmax"),
])
model.compile(keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"])
plateau = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=2)
model.fit(x_train, y_train, epochs=3, batch_size=16, validation_data=(x_val, y_val), callbacks=[plateau], verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0))
