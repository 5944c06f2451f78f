"""A convolutional network whose kernels need the same large workspace for one sample as for a hundred."""

import keras
import numpy as np

keras.utils.set_random_seed(7)
generator = np.random.default_rng(0)
x = generator.random((384, 24, 24, 3)).astype("float32")
y = generator.integers(0, 10, 384)
inputs = keras.Input((24, 24, 3))
first = keras.layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
second = keras.layers.Conv2D(24, 3, padding="same", activation="relu")(first)
pooled = keras.layers.MaxPooling2D(4)(keras.layers.add([first, second]))
model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(keras.layers.Flatten()(pooled)))
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(x, y, batch_size=128, epochs=2, verbose=0)
print("iterations", int(model.optimizer.iterations.numpy()))
