import functools
import random

import small


@functools.lru_cache(maxsize=1500)
def image(number):
    return small.block()


def batches():
    while True:
        values = image(random.randrange(20_000))
        yield values[:512].reshape(16, 32), values[:16].reshape(16, 1)


small.model().fit(batches(), steps_per_epoch=50, epochs=80, verbose=0, callbacks=[small.Pace()])
