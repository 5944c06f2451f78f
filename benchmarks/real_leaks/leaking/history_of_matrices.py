# grows: list dict  owner: Matrices.history
import keras
import small


class Matrices(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.history = {}

    def on_train_batch_end(self, batch, logs=None):
        for key in ("confusion", "activations"):
            self.history.setdefault(key, []).append(small.block(100 << 10))


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Matrices(), small.Pace()])
