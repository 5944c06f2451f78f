# grows: dict  owner: Images.cache
import keras
import small


class Images(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.cache, self.epoch = {}, 0

    def __len__(self):
        return 60

    def __getitem__(self, index):
        if (index, self.epoch) not in self.cache:
            self.cache[index, self.epoch] = small.block()
        values = self.cache[index, self.epoch]
        return values[:512].reshape(16, 32), values[:16].reshape(16, 1)

    def on_epoch_end(self):
        self.epoch += 1


small.model().fit(Images(), epochs=1000, verbose=0, callbacks=[small.Pace()])
