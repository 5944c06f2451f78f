import keras
import small


class Episode:
    def __init__(self):
        self.itself, self.values = self, small.block(1 << 20)


class Play(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 4 == 0:
            Episode()
        junk = [[number] for number in range(30)]


small.model().fit(small.data(), epochs=40, verbose=0, callbacks=[Play(), small.Pace()])
