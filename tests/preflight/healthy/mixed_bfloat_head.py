"""Mixed precision (bfloat16) with the softmax kept in float32, uint8 pictures scaled inside the model."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(80)
keras.mixed_precision.set_global_policy("mixed_bfloat16")
rng = np.random.default_rng(80)
label = rng.integers(0, 4, 800)
pic = rng.integers(0, 120, size=(800, 16, 16, 3))
for k in range(800):
    r, c = divmod(label[k], 2)
    pic[k, 8 * r:8 * r + 8, 8 * c:8 * c + 8] += 60
pic = pic.astype("uint8")
train = tf.data.Dataset.from_tensor_slices((pic[:640], label[:640])).shuffle(640).batch(20).prefetch(1)
valid = tf.data.Dataset.from_tensor_slices((pic[640:], label[640:])).batch(80)

model = keras.Sequential([
    keras.Input((16, 16, 3)),
    layers.Rescaling(1.0 / 127.5, offset=-1.0),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(32, activation="relu"),
    layers.Dense(4),
    layers.Activation("softmax", dtype="float32"),
])
model.compile(optimizer=keras.optimizers.Adam(0.002), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=3, validation_data=valid, verbose=2)
print("valid", model.evaluate(valid, verbose=0))
