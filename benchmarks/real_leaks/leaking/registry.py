# grows: list object
import keras
import small


class Sample:
    registry = []

    def __init__(self, values):
        self.values = values
        Sample.registry.append(self)


class Keep(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        Sample(small.block())


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Keep(), small.Pace()])
