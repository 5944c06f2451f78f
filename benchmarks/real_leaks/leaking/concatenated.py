# grows: array  owner: Embeddings.all
import keras
import numpy as np
import small


class Embeddings(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.all = np.zeros((0, 1024), "float32")

    def on_train_batch_end(self, batch, logs=None):
        if batch % 10 == 0:
            self.all = np.concatenate([self.all, np.ones((500, 1024), "float32")])


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Embeddings(), small.Pace()])
