# grows: list  owner: Recorder.outputs
import keras
import small
import tensorflow as tf


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.outputs = []
        self.inputs = tf.ones((1600, 32))

    def on_train_batch_end(self, batch, logs=None):
        self.outputs.append(tf.tile(self.model(self.inputs), [1, 32]))


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Recorder(), small.Pace()])
