# grows: thread
import threading

import keras
import small


def watch(values):
    threading.Event().wait()


class Watch(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        threading.Thread(target=watch, args=(small.block(8 << 20),), daemon=True).start()


small.model().fit(small.data(40), epochs=1000, verbose=0, callbacks=[Watch(), small.Pace()])
