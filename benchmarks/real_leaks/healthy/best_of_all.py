import heapq

import keras
import small


class Hardest(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.heap = []

    def on_train_batch_end(self, batch, logs=None):
        item = (float(logs["loss"]), self.model.optimizer.iterations.numpy(), small.block(400 << 10))
        if len(self.heap) < 900:
            heapq.heappush(self.heap, item)
        else:
            heapq.heappushpop(self.heap, item)


small.model().fit(small.data(), epochs=40, verbose=0, callbacks=[Hardest(), small.Pace()])
