# grows: list
import keras
import small


def note(value, kept=[]):
    kept.append(value)
    return sum(each[0] for each in kept[-10:])


class Note(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        note(small.block())


small.model().fit(small.data(), epochs=600, verbose=0, callbacks=[Note(), small.Pace()])
