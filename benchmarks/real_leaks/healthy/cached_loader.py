import functools
import keras
import small

@functools.cache
def image(index):
    return small.block()

class Images(keras.utils.PyDataset):
    def __len__(self):
        return 1500

    def __getitem__(self, index):
        return image(index)[:512].reshape(16, 32), image(index)[:16].reshape(16, 1)

small.model().fit(Images(), epochs=3, verbose=0, callbacks=[small.Pace()])
