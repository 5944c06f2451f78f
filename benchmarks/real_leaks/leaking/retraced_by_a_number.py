# grows: graph
import keras
import small
import tensorflow as tf


@tf.function
def scaled(x, step):
    return tf.reduce_sum(x * tf.constant(small.block(512 << 10)) * step)


class Regularised(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps % 3 == 0:
            scaled(tf.ones([]), self.steps)


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Regularised(), small.Pace()])
