# grows: cache  owner: augmented
import functools

import small


@functools.cache
def augmented(seed):
    return small.block()


def batches():
    seed = 0
    while True:
        seed += 1
        yield augmented(seed)[:512].reshape(16, 32), augmented(seed)[:16].reshape(16, 1)


small.model().fit(batches(), steps_per_epoch=50, epochs=1000, verbose=0, callbacks=[small.Pace()])
