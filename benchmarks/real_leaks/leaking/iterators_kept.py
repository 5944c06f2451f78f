# grows: iterator dataset
import keras
import small
import tensorflow as tf


class Probe(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.probes = []

    def on_epoch_end(self, epoch, logs=None):
        batches = iter(tf.data.Dataset.range(100).map(lambda n: tf.fill((1 << 18,), tf.cast(n, tf.float32))).shuffle(20))
        next(batches)
        self.probes.append(batches)


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Probe(), small.Pace()])
