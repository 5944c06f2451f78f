# A stateful network with whole batches only, a custom loss that knows shapes, padding behind a mask that is used.
import keras
import numpy as np
import tensorflow as tf


class MeanError(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.abs(tf.reshape(y_true, (-1, 1)) - y_pred)


rng = np.random.default_rng(0)
steps = rng.normal(size=(330, 12, 3)).astype("float32")
steps[:, 9:] = 0.0
total = steps[..., 0].sum(axis=1)
dataset = tf.data.Dataset.from_tensor_slices((steps, total)).batch(32, drop_remainder=True)
inputs = keras.Input(batch_shape=(32, 12, 3))
hidden = keras.layers.Masking(0.0)(inputs)
hidden = keras.layers.GRU(8, stateful=True)(hidden)
outputs = keras.layers.Reshape((1,))(keras.layers.Dense(1)(hidden))
model = keras.Model(inputs, outputs)
model.compile("adam", MeanError())
model.fit(dataset, epochs=10, verbose=0)
