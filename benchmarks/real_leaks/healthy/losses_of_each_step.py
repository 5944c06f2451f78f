import keras
import small


class Losses(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(dict(logs))


small.model().fit(small.data(), epochs=40, verbose=0, callbacks=[Losses(), small.Pace()])
