import keras
import small


class Images(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def __len__(self):
        return 1600

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = small.block()
        values = self.cache[index]
        return values[:512].reshape(16, 32), values[:16].reshape(16, 1)


small.model().fit(Images(), epochs=3, verbose=0, callbacks=[small.Pace()])
