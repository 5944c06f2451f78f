# grows: list  owner: Late.to_do
import keras
import small


class Late(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.to_do = []

    def on_train_batch_end(self, batch, logs=None):
        values = small.block()
        self.to_do.append(lambda: print(values.mean()))


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Late(), small.Pace()])
