# finds: difference-broadcasts
import keras
import numpy as np
import tensorflow as tf


class RootMeanSquaredError(keras.losses.Loss):
    def call(self, y_true, y_pred):
        y_true = tf.reshape(y_true, tf.shape(y_pred))  # RIGHT
        return tf.sqrt(tf.reduce_mean(tf.square(y_true - y_pred)))


rng = np.random.default_rng(5)
rooms = rng.normal(size=(640, 6)).astype("float32")
price = (rooms @ rng.normal(size=6)).astype("float32")
houses = tf.data.Dataset.from_tensor_slices((rooms, price)).shuffle(640, seed=1).batch(32)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(1e-3), RootMeanSquaredError())
model.fit(houses, epochs=20, verbose=0)
