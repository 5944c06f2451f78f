import keras
import small


class Outputs(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.outputs = []

    def on_train_batch_end(self, batch, logs=None):
        self.outputs.append(small.block(400 << 10))


small.model().fit(small.data(500), epochs=8, verbose=0, callbacks=[Outputs(), small.Pace()])
