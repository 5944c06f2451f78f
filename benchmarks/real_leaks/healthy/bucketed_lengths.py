import random

import keras
import small
import tensorflow as tf


@tf.function
def attend(x):
    return tf.reduce_sum(tf.matmul(x, x, transpose_b=True) * tf.reduce_sum(tf.constant(small.block(4 << 20))))


class Attend(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        attend(tf.ones((random.choice(range(16, 416, 16)), 32)))


small.model().fit(small.data(), epochs=40, verbose=0, callbacks=[Attend(), small.Pace()])
