# grows: dict  owner: memo
import keras
import small

memo = {}


class Gradients(keras.callbacks.Callback):
    seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        memo[self.seen] = small.block()


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Gradients(), small.Pace()])
