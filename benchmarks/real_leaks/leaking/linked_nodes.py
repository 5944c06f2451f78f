# grows: object
import keras
import small


class Node:
    def __init__(self, before, values):
        self.before, self.values = before, values


class Trace(keras.callbacks.Callback):
    last = None

    def on_train_batch_end(self, batch, logs=None):
        self.last = Node(self.last, small.block(50 << 10))
        self.last = Node(self.last, small.block(150 << 10))


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Trace(), small.Pace()])
